"""Features that are not numbers yet: JSON objects, turned into vectors of a chosen width."""

from glbandits.features.hashing import Hashing

__all__ = ["Hashing"]
