"""Features that are not numbers yet: JSON objects, turned into vectors of a chosen width."""

from glbandits.features.hashing import Hashing
from glbandits.features.named_features import NamedFeature, NamedFeatures

__all__ = ["Hashing", "NamedFeature", "NamedFeatures"]
