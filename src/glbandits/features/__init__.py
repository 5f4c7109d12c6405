"""Feature maps and feature hashing: encode table columns and JSON objects as features."""

from glbandits.features.feature_map.feature_map import FeatureMap
from glbandits.features.feature_map.random_fourier import RandomFourier
from glbandits.features.hashing.hashing import Hashing
from glbandits.features.kinds.categorical import Category, Tags
from glbandits.features.kinds.dates import Date
from glbandits.features.kinds.hashed_text import Text
from glbandits.features.kinds.numeric import Number

__all__ = [
    "Category",
    "Date",
    "FeatureMap",
    "Hashing",
    "Number",
    "RandomFourier",
    "Tags",
    "Text",
]
