"""Features computed by a fitted scikit-learn transformer instead of a feature map."""

from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse as scipy_sparse

from glbandits.common.errors import InvalidInput
from glbandits.features.feature_map.feature_map import FeatureMap
from glbandits.features.table_columns import Table, table_columns


@runtime_checkable
class Features(Protocol):
    """The part of a feature map that a Bandit uses."""

    @property
    def dim(self) -> int:
        """The number of features of an arm."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""

    def transform(self, rows: Table, *, sparse: bool = False) -> Any:
        """The features of each row, (n, dim)."""

    def document(self) -> dict[str, Any]:
        """The JSON object that a model file stores."""


class TransformerFeatures:
    """A fitted scikit-learn transformer, such as a ColumnTransformer, used as a feature map.

    A model file does not contain the transformer: pass it again to `Bandit.load`.

    Args:
        transformer: an object with `transform` and `get_feature_names_out`. Its `transform` receives a pandas data
            frame, or a polars data frame if pandas is not installed.
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer
        try:
            self.names = tuple(map(str, transformer.get_feature_names_out()))
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"{type(transformer).__name__} must be fitted and have get_feature_names_out: {error}"
            ) from None

    @property
    def dim(self) -> int:
        """The number of features of an arm."""
        return len(self.names)

    def transform(self, rows: Table, *, sparse: bool = False) -> Any:
        """The features of each row, (n, dim): a float64 array, or a scipy.sparse CSR array.

        Raises InvalidInput if the transformer raises any error.
        """
        frame = rows if hasattr(rows, "iloc") or hasattr(rows, "get_columns") else _frame(rows)
        try:
            features = self.transformer.transform(frame)
        except Exception as error:  # the transformer may be of any library
            raise InvalidInput(
                f"the transformer {type(self.transformer).__name__} failed on the rows: {error}"
            ) from None
        if sparse:
            return scipy_sparse.csr_array(features, dtype=np.float64)
        dense = features.toarray() if scipy_sparse.issparse(features) else features
        return np.ascontiguousarray(dense, dtype=np.float64)

    def document(self) -> dict[str, Any]:
        """The class and the feature names of the transformer, for a model file."""
        return {"version": 1, "transformer": type(self.transformer).__name__, "names": list(self.names)}


def as_features(features: Any) -> Features:
    """Return a feature map unchanged, and wrap a fitted scikit-learn transformer."""
    if isinstance(features, FeatureMap | TransformerFeatures):
        return features
    if hasattr(features, "transform") and not isinstance(features, type):
        return TransformerFeatures(features)
    raise InvalidInput(
        "features must be a FeatureMap, such as log.feature_map, or a fitted scikit-learn transformer; got "
        f"{type(features).__name__}"
    )


def _frame(rows: Table) -> Any:
    columns = table_columns(rows)
    for library in ("pandas", "polars"):
        try:
            return import_module(library).DataFrame(columns)
        except ModuleNotFoundError:
            continue
    raise InvalidInput(
        "a scikit-learn transformer needs a data frame. Pass rows as a data frame, or install pandas or polars"
    )
