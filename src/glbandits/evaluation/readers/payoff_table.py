"""Payoffs of the arms of a log from a table with a row for each arm: arm, value, cost."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.logs.payoffs import PayoffLog
from glbandits.evaluation.readers.column_values import column_error, float_values, some_names
from glbandits.evaluation.readers.frames import read_arm_table
from glbandits.features.kinds.categorical import as_category

VALUE, COST, FIELD = "value", "cost", "payoffs"


def add_payoffs(log: Log, table: Any) -> Log:
    """Return a log whose arms have the values and costs of a table. Estimates are then payoffs.

    Args:
        log: a log whose arms have names. Values and costs of the log itself are replaced.
        table: a row for each arm, with the columns arm, value and cost (optional, 0); or the path of a CSV or Parquet
            file. It may have rows of other arms.

    Raises InvalidInput unless each arm of the log has a value of at least 0 and a cost.
    """
    names = log.schema.names
    if not names:
        raise InvalidInput("payoffs needs a log whose arms have names; this log has only features", field=FIELD)
    return PayoffLog(log, *read_payoffs(table).of(names))


class ArmPayoffs(NamedTuple):
    """The row of each arm by its name, and the values and costs of all rows."""

    rows: dict[str | None, int]
    values: Floats
    costs: Floats

    def of(self, names: Sequence[str]) -> Floats:
        """The values and costs of these arms, (2, arms). Raises InvalidInput if an arm has no row."""
        missing = [name for name in dict.fromkeys(names) if as_category(name) not in self.rows]
        if missing:
            raise InvalidInput(
                f"payoffs must have a row for each arm; it has none for {some_names(missing)}. Its arms are "
                f"{some_names([str(name) for name in self.rows])}",
                field=FIELD,
            )
        at = np.array([self.rows[as_category(name)] for name in names])
        return np.array([self.values[at], self.costs[at]])


def read_payoffs(table: Any) -> ArmPayoffs:
    """Read a table or a file as for `add_payoffs`."""
    frame = read_arm_table(table, None, name=FIELD)
    # polars renames the second column "value" to "value_duplicated_0".
    known = {name: re.sub(r"_duplicated_\d+$", "", name.strip().lower()) for name in frame.columns}
    arms = [name for name in known if known[name] not in (VALUE, COST)]
    arm = next((name for name in arms if known[name] == "arm"), arms[0] if arms else "")
    if VALUE not in known.values() or not arms or (COST not in known.values() and len(arms) > 1):
        raise InvalidInput(
            f"payoffs must have the columns arm, value and cost (or only arm and value); got {some_names(list(known))}",
            field=FIELD,
        )
    if any(list(known.values()).count(name) > 1 for name in (known[arm], VALUE, COST)):
        raise InvalidInput(f"payoffs must have each column once; got {some_names(list(known.values()))}", field=FIELD)
    frame = frame.rename({name: known[name] for name in known if known[name] in (VALUE, COST)})
    rows: dict[str | None, int] = {}
    for row, name in enumerate(frame[arm]):
        if as_category(name) is None or rows.setdefault(as_category(name), row) != row:
            raise column_error(frame[arm], row, 0, "must name each arm of payoffs once", field=FIELD)
    values = _numbers(frame[VALUE])
    wrong = values < 0.0
    if wrong.any():
        raise column_error(
            frame[VALUE], int(np.argmax(wrong)), 0, "must be at least 0", "Write a loss as a cost", field=FIELD
        )
    return ArmPayoffs(rows, values, _numbers(frame[COST]) if COST in frame else np.zeros(len(frame)))


def _numbers(series: pl.Series) -> Floats:
    try:
        return float_values(series)
    except InvalidInput as error:
        raise InvalidInput(f"payoffs: {error}", field=FIELD) from None
