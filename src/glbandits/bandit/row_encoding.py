"""Rows of named values, made features by the feature map of a Bandit."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from glbandits.errors import InvalidInput
from glbandits.features.table_columns import Table, is_table
from glbandits.features.transformer_features import Features
from glbandits.maths.sparse_rows import SparseRows

Rows: TypeAlias = ArrayLike | SparseRows | Table
"""An array of features; SparseRows or a matrix of scipy.sparse, if the Bandit is sparse; or rows of named values, if it
has a feature map."""


def dim_of(dim: int | None, features: Features | None) -> int:
    """The number of features, which a feature map or the user tells."""
    if features is None:
        if dim is None:
            raise InvalidInput("a Bandit needs dim, the number of features of an arm, or features, a feature map")
        return dim
    if dim is not None and dim != features.dim:
        raise InvalidInput(f"the feature map gives {features.dim} features, got dim={dim}. Leave dim out")
    return features.dim


def encoded_rows(features: Features | None, rows: Rows, *, sparse: bool = False) -> Any:
    """The features of rows of named values; an array as it is."""
    if not is_table(rows):
        return rows
    if features is None:
        raise InvalidInput(
            "rows of named values need a feature map, which turns them into numbers: Bandit(policy, features=...). "
            f"Got {repr(rows)[:60]}"
        )
    return features.transform(rows, sparse=sparse)


def encoded_row(features: Features | None, row: Any, *, sparse: bool = False) -> Any:
    """The features of one row of named values, a dict or a table with one row; an array as it is."""
    if isinstance(row, Mapping):
        row = [row]
    if not is_table(row):
        return row
    encoded: Any = encoded_rows(features, row, sparse=sparse)
    if encoded.shape[0] != 1:
        raise InvalidInput(f"x must be one row, the arm that got the reward; got {encoded.shape[0]} rows")
    return encoded if sparse else encoded[0]
