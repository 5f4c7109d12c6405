"""Read the columns of tables of any library, without importing a data frame library."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from glbandits.common.errors import InvalidInput, value_text

Table: TypeAlias = Any
"""A data frame of pandas or polars, an Arrow table, a list of dicts, or a dict of columns."""
Values: TypeAlias = Any
"""The values of a column: a list, or an array of numbers with NaN for missing values."""


def is_table(table: object) -> bool:
    """Whether an object has named columns, unlike an array of numbers.

    >>> is_table([{"age": 3}]), is_table({"age": [3]}), is_table([[3.0]])
    (True, True, False)
    """
    if isinstance(table, Mapping):
        return True
    if isinstance(table, list | tuple):
        return bool(table) and isinstance(table[0], Mapping)
    return any(hasattr(table, name) for name in ("iloc", "get_columns", "to_pydict"))


def is_series(value: object) -> bool:
    """Whether an object is a pandas Series, such as the row `frame.iloc[3]` of a data frame."""
    return hasattr(value, "iloc") and getattr(value, "ndim", 0) == 1


def table_columns(table: Table, names: Iterable[str] | None = None) -> dict[str, Values]:
    """The columns of a table by name, with None or NaN for missing values.

    In a dict of columns, a single value is repeated in every row, and a list has one value for each row. In a list of
    dicts, a name such as "user.age" also refers to the field "age" of the object in the field "user".

    Args:
        table: a table of any supported type.
        names: the columns to return; those that the table lacks are left out. None returns all columns.

    Raises:
        InvalidInput: if the type of the table is not supported, or its columns differ in length.
    """
    if isinstance(table, list | tuple):
        return _columns_of_rows(table, names)
    if isinstance(table, Mapping):
        columns = _broadcast(table)
    elif hasattr(table, "to_pydict"):
        columns = table.to_pydict()
    elif hasattr(table, "iloc") and not is_series(table):
        columns = {str(name): table.iloc[:, index].tolist() for index, name in enumerate(table.columns)}
    elif hasattr(table, "get_columns"):
        columns = {column.name: column.to_list() for column in table.get_columns()}
    else:
        raise InvalidInput(
            "a table must be a list of dicts, a dict of columns, or a data frame of pandas, polars or Arrow; got "
            f"{type(table).__name__}"
        )
    return columns if names is None else {name: columns[name] for name in names if name in columns}


def row_count(table: Table) -> int:
    """The number of rows of a table."""
    if isinstance(table, Mapping):
        return next((len(values) for values in _broadcast(table).values()), 0)
    if hasattr(table, "num_rows"):  # an Arrow table has no length of its own in old versions
        return int(table.num_rows)
    return len(table)


def row_range(table: Table, start: int, stop: int) -> Table:
    """Some rows of a table, as a table of the same type."""
    if isinstance(table, Mapping):
        return {name: values[start:stop] for name, values in _broadcast(table).items()}
    if hasattr(table, "iloc"):
        return table.iloc[start:stop]
    return table[start:stop] if isinstance(table, list | tuple) else table.slice(start, stop - start)


def named_table(array: Any, names: Sequence[str]) -> dict[str, Any]:
    """Convert a NumPy or scipy.sparse array to a dict of columns with these names.

    >>> named_table(np.array([[1.0, 2.0]]), ["age", "price"])
    {'age': array([1.]), 'price': array([2.])}
    """
    dense = array.toarray() if sparse.issparse(array) else np.asarray(array)
    if dense.ndim != 2 or dense.shape[1] != len(names):
        raise InvalidInput(
            f"array must have 2 dimensions and {len(names)} columns, one for each name; got shape {dense.shape}"
        )
    return {str(name): dense[:, index] for index, name in enumerate(names)}


def _broadcast(table: Mapping[Any, Any]) -> dict[str, Values]:
    columns = {str(name): _sequence(values) for name, values in table.items()}
    lengths = {len(values) for values in columns.values() if values is not None}
    if len(lengths) > 1:
        counts = ", ".join(f"{name!r}: {len(values)}" for name, values in columns.items() if values is not None)
        raise InvalidInput(
            f"the columns of a table must have the same length; got {counts}. A list has one value for each row. To "
            "repeat a list in every row, write [values] * number_of_rows"
        )
    rows = lengths.pop() if lengths else 1
    return {name: [table[name]] * rows if values is None else values for name, values in columns.items()}


def _sequence(values: Any) -> Values | None:
    """The values of a column; None if it is a single value."""
    if isinstance(values, np.ndarray) and values.ndim:
        return values if values.dtype.kind in "iuf" and values.ndim == 1 else list(values)
    if isinstance(values, list | tuple | range):
        return values
    if hasattr(values, "to_list") or hasattr(values, "to_pylist"):  # a pandas, polars or Arrow column
        return list(values.to_list() if hasattr(values, "to_list") else values.to_pylist())
    return None


def _columns_of_rows(rows: Sequence[Any], names: Iterable[str] | None) -> dict[str, Values]:
    if not all(type(row) is dict or isinstance(row, Mapping) for row in rows):
        index = next(index for index, row in enumerate(rows) if not isinstance(row, Mapping))
        raise InvalidInput(f"row {index} must be a dict with a value for each column; got {value_text(rows[index])}")
    if not rows:
        return {}
    selected = dict.fromkeys(str(name) for row in rows for name in row) if names is None else names
    columns: dict[str, Values] = {}
    for name in selected:
        if name in rows[0] or any(name in row for row in rows):
            columns[name] = [row.get(name) for row in rows]
        elif "." in name:
            values = [_nested_value(row, name.split(".")) for row in rows]
            if any(value is not None for value in values):
                columns[name] = values
    return columns


def _nested_value(row: Any, path: Sequence[str]) -> Any:
    """The value at a path in nested objects; None if there is none."""
    for part in path:
        if not isinstance(row, Mapping) or part not in row:
            return None
        row = row[part]
    return row


def check_present(
    wanted: Iterable[str],
    found: Iterable[str],
    what: str = "the table",
    advice: str = "",
    *,
    field: str | None = None,
) -> None:
    """Raise InvalidInput if a table lacks wanted columns. The error suggests columns with similar names.

    Args:
        wanted: the names of the columns that the table must have.
        found: the names of its columns.
        what: names the table in the message.
        advice: a sentence that tells the user what to do.
        field: the parameter that names the columns.
    """
    wanted, found = list(wanted), list(found)
    missing = [name for name in wanted if name not in found]
    if not missing:
        return
    guesses = {name: get_close_matches(name, found, n=1, cutoff=0.5) for name in missing}
    hints = [f"{name!r} (did you mean {near[0]!r}?)" if near else repr(name) for name, near in guesses.items()]
    ending = f". {advice}" if advice else ""
    raise InvalidInput(
        f"{what} has no column {', '.join(hints)}. Expected: {_few(wanted)}. Found: {_few(found) or 'none'}{ending}",
        field=field,
    )


def _few(names: Sequence[str]) -> str:
    """At most 40 names, to keep the message readable."""
    return ", ".join([*names[:40], f"and {len(names) - 40} more"] if len(names) > 40 else names)


def request_rows(features: object, shared: Any, actions: Sequence[Any], ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row of a table for each action of a request: the fields of the request and of the action.

    If each arm of the feature map has a block of features of its own, the id of an action is the name of its arm,
    unless its fields name the arm.

    Raises InvalidInput if the fields are not objects.
    """
    context, block = merged_fields("the shared features", shared), getattr(features, "per_arm_block", None)
    return [
        {
            **context,
            **({} if block is None else {block: name}),
            **merged_fields(f"the features of action {index}", action),
        }
        for index, (action, name) in enumerate(zip(actions, ids, strict=True))
    ]


def merged_fields(owner: str, objects: Any) -> dict[str, Any]:
    """Merge the fields of an object or of a list of objects. `owner` names them in messages."""
    fields: dict[str, Any] = {}
    for part in objects if isinstance(objects, list | tuple) else [objects]:
        if not isinstance(part, Mapping):
            raise InvalidInput(f"{owner} must be an object or a list of objects; got {value_text(objects)}")
        fields |= part
    return fields
