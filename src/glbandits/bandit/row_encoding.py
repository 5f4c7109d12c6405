"""Encode rows of named values by the feature map of a Bandit."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from glbandits.common.errors import InvalidInput, value_text
from glbandits.features.table_columns import Table, is_series, is_table
from glbandits.features.transformer_features import Features
from glbandits.maths.sparse_rows import SparseRows

Rows: TypeAlias = ArrayLike | SparseRows | Table
"""An array of features; SparseRows or a scipy.sparse matrix if the Bandit is sparse; rows of named values if it has a
feature map."""


def resolve_dim(dim: int | None, features: Features | None) -> int:
    """The number of features, from the feature map or from the user.

    Raises InvalidInput if they disagree.
    """
    if features is None:
        if dim is None:
            raise InvalidInput("a Bandit needs dim, the number of features of an arm, or features, a feature map")
        return dim
    if dim is not None and dim != features.dim:
        raise InvalidInput(f"dim must be {features.dim}, the dimension of the feature map; got {dim}. Leave dim out")
    return features.dim


def encode_rows(features: Features | None, rows: Rows, *, sparse: bool = False) -> Any:
    """Encode rows of named values. Returns an array or a sparse matrix unchanged."""
    if features is not None and (rows is None or (isinstance(rows, list | tuple) and not rows)):
        raise InvalidInput(f"a decision needs a row of named values for each arm, at least one; got {value_text(rows)}")
    if not is_table(rows):
        return rows
    if features is None:
        raise InvalidInput(
            f"rows of named values need a feature map; got {value_text(rows)}. Create the Bandit with features=..., or "
            "pass an array of numbers"
        )
    return features.transform(rows, sparse=sparse)


def encode_row(features: Features | None, row: Any, *, sparse: bool = False) -> Any:
    """Encode one row of named values: a dict, a row of a pandas data frame, or a table with one row.

    Returns an array unchanged.
    """
    if is_series(row):
        row = row.to_numpy() if features is None else row.to_dict()
    if isinstance(row, Mapping):
        row = [row]
    if not is_table(row):
        return row
    encoded: Any = encode_rows(features, row, sparse=sparse)
    if encoded.shape[0] != 1:
        raise InvalidInput(f"x must be one row, the arm with this reward; got {encoded.shape[0]} rows")
    return encoded if sparse else encoded[0]
