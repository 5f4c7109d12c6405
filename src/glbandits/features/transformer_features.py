"""A fitted transformer of scikit-learn in place of a feature map."""

from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse as scipy_sparse

from glbandits.errors import InvalidInput
from glbandits.features.feature_map.feature_map import FeatureMap
from glbandits.features.table_columns import Table, table_columns


@runtime_checkable
class Features(Protocol):
    """What a Bandit needs of a feature map."""

    @property
    def dim(self) -> int:
        """The number of features of an arm."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""

    def transform(self, rows: Table, *, sparse: bool = False) -> Any:
        """The features of each row, (n, dim)."""

    def document(self) -> dict[str, Any]:
        """What a model file stores of it."""


class TransformerFeatures:
    """A fitted transformer of scikit-learn, such as a ColumnTransformer, as features. A file cannot carry it.

    Args:
        transformer: has `transform`, which takes a data frame of pandas (or of polars, if pandas is not installed), and
            `get_feature_names_out`.
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer
        try:
            self.names = tuple(map(str, transformer.get_feature_names_out()))
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"{type(transformer).__name__} must be fitted and tell the names of its features: {error}"
            ) from None

    @property
    def dim(self) -> int:
        """The number of features of an arm."""
        return len(self.names)

    def transform(self, rows: Table, *, sparse: bool = False) -> Any:
        """The features of each row, (n, dim): a float64 array, or a CSR array of SciPy."""
        frame = rows if hasattr(rows, "iloc") or hasattr(rows, "get_columns") else _frame(rows)
        try:
            made = self.transformer.transform(frame)
        except Exception as error:  # of any library, about the user's own rows
            raise InvalidInput(f"the transformer of the features could not use the rows: {error}") from None
        if sparse:
            return scipy_sparse.csr_array(made, dtype=np.float64)
        dense = made.toarray() if scipy_sparse.issparse(made) else made
        return np.ascontiguousarray(dense, dtype=np.float64)

    def document(self) -> dict[str, Any]:
        """The names of the features: all that a model file can store of it."""
        return {"version": 1, "transformer": type(self.transformer).__name__, "names": list(self.names)}


def as_features(features: Any) -> Features:
    """A feature map as it is, or a fitted transformer of scikit-learn as features."""
    if isinstance(features, FeatureMap | TransformerFeatures):
        return features
    if hasattr(features, "transform") and not isinstance(features, type):
        return TransformerFeatures(features)
    raise InvalidInput(
        "features must be a FeatureMap, such as log.feature_map, or a fitted transformer of scikit-learn; got "
        f"{type(features).__name__}"
    )


def _frame(rows: Table) -> Any:
    columns = table_columns(rows)
    for library in ("pandas", "polars"):
        try:
            return import_module(library).DataFrame(columns)
        except ModuleNotFoundError:
            continue
    raise InvalidInput("a transformer of scikit-learn needs pandas or polars to be installed, or a data frame as rows")
