"""Tables of any library as columns of plain values. No library of data frames is imported."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from glbandits.errors import InvalidInput
from glbandits.features.kinds.column_kind import Values

Table: TypeAlias = Any
"""A data frame of pandas or polars, an Arrow table, a list of dicts, a dict of columns, or a structured array."""


def is_table(table: object) -> bool:
    """Whether it has named columns, unlike an array of numbers.

    >>> is_table([{"age": 3}]), is_table({"age": [3]}), is_table([[3.0]])
    (True, True, False)
    """
    if isinstance(table, Mapping):
        return True
    if isinstance(table, list | tuple):
        return bool(table) and isinstance(table[0], Mapping)
    if isinstance(table, np.ndarray):
        return table.dtype.names is not None
    return any(hasattr(table, name) for name in ("iloc", "get_columns", "to_pydict"))


def table_columns(table: Table, names: Iterable[str] | None = None) -> dict[str, Values]:
    """The columns of a table, all of them or those of these names that it has. Missing values are None or NaN.

    A single value in a dict of columns stands in every row. A name such as "user.age" is found within objects too.
    """
    if isinstance(table, list | tuple):
        return _columns_of_rows(table, names)
    if isinstance(table, Mapping):
        found = _broadcast(table)
    elif hasattr(table, "to_pydict"):
        found = table.to_pydict()
    elif hasattr(table, "iloc"):
        found = {str(name): table.iloc[:, index].tolist() for index, name in enumerate(table.columns)}
    elif hasattr(table, "get_columns"):
        found = {column.name: column.to_list() for column in table.get_columns()}
    elif isinstance(table, np.ndarray) and table.dtype.names is not None:
        found = {name: table[name].tolist() for name in table.dtype.names}
    else:
        raise InvalidInput(
            "a table must be a list of dicts, a dict of columns, or a data frame of pandas, polars or Arrow; got "
            f"{type(table).__name__}"
        )
    return found if names is None else {name: found[name] for name in names if name in found}


def named_table(array: Any, names: Sequence[str]) -> dict[str, Any]:
    """A dict of columns from an array of NumPy or scipy.sparse whose columns have these names.

    >>> named_table(np.array([[1.0, 2.0]]), ["age", "price"])
    {'age': array([1.]), 'price': array([2.])}
    """
    dense = array.toarray() if sparse.issparse(array) else np.asarray(array)
    if dense.ndim != 2 or dense.shape[1] != len(names):
        raise InvalidInput(f"{len(names)} names need an array with as many columns; got shape {dense.shape}")
    return {str(name): dense[:, index] for index, name in enumerate(names)}


def _broadcast(table: Mapping[Any, Any]) -> dict[str, Values]:
    columns = {str(name): _sequence(values) for name, values in table.items()}
    lengths = {len(values) for values in columns.values() if values is not None}
    if len(lengths) > 1:
        raise InvalidInput(f"the columns of a table must be of the same length; got lengths {sorted(lengths)}")
    rows = lengths.pop() if lengths else 1
    return {name: [table[name]] * rows if values is None else values for name, values in columns.items()}


def _sequence(values: Any) -> Values | None:
    """The values of a column; None if it is a single value."""
    if isinstance(values, np.ndarray) and values.ndim:
        return values if values.dtype.kind in "iuf" and values.ndim == 1 else list(values)
    if isinstance(values, list | tuple | range):
        return values
    if hasattr(values, "to_list") or hasattr(values, "to_pylist"):  # of pandas, polars or Arrow
        return list(values.to_list() if hasattr(values, "to_list") else values.to_pylist())
    return None


def _columns_of_rows(rows: Sequence[Any], names: Iterable[str] | None) -> dict[str, Values]:
    if not all(type(row) is dict or isinstance(row, Mapping) for row in rows):
        index = next(index for index, row in enumerate(rows) if not isinstance(row, Mapping))
        raise InvalidInput(f"row {index} must be a dict with a value for each column; got {repr(rows[index])[:60]}")
    if not rows:
        return {}
    wanted = dict.fromkeys(str(name) for row in rows for name in row) if names is None else names
    columns: dict[str, Values] = {}
    for name in wanted:
        if name in rows[0] or any(name in row for row in rows):
            columns[name] = [row.get(name) for row in rows]
        elif "." in name:
            values = [_within(row, name.split(".")) for row in rows]
            if any(value is not None for value in values):
                columns[name] = values
    return columns


def _within(row: Any, path: Sequence[str]) -> Any:
    """The value at a path within objects; None if there is none."""
    for part in path:
        if not isinstance(row, Mapping) or part not in row:
            return None
        row = row[part]
    return row


def check_present(wanted: Iterable[str], found: Iterable[str]) -> None:
    """Raise InvalidInput if a table lacks a wanted column, with the name that may have been meant."""
    names = list(found)
    for name in wanted:
        if name not in names:
            near = get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise InvalidInput(f"the table has no column {name!r}{hint}. It has: {', '.join(names[:40])}")
