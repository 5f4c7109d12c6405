"""Feature maps and feature hashing: encode table columns and JSON objects as features."""

from glbandits.features.feature_map.feature_map import FeatureMap
from glbandits.features.feature_map.random_fourier import RandomFourier
from glbandits.features.hashing.hashing import Hashing
from glbandits.features.hashing.named_features import NamedFeature, NamedFeatures
from glbandits.features.kinds.categorical import Category, Tags
from glbandits.features.kinds.column_kind import ColumnKind
from glbandits.features.kinds.dates import Date
from glbandits.features.kinds.hashed_text import Hashed, Text
from glbandits.features.kinds.numeric import Boolean, Number, Vector
from glbandits.features.table_columns import named_table
from glbandits.features.transformer_features import Features, TransformerFeatures

__all__ = [
    "Boolean",
    "Category",
    "ColumnKind",
    "Date",
    "FeatureMap",
    "Features",
    "Hashed",
    "Hashing",
    "NamedFeature",
    "NamedFeatures",
    "Number",
    "RandomFourier",
    "Tags",
    "Text",
    "TransformerFeatures",
    "Vector",
    "named_table",
]
