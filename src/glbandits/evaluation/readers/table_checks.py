"""Check the rows of a table by one pass of polars expressions, which finds the first invalid row."""

from collections.abc import Iterator
from functools import reduce
from operator import or_

import polars as pl

from glbandits.common.errors import MAX_ABS
from glbandits.evaluation.logs.array_checks import PROBABILITY_ROUNDING
from glbandits.evaluation.readers.column_values import is_number
from glbandits.evaluation.readers.columns import OF_EACH_ARM
from glbandits.evaluation.readers.table_layout import TableLayout
from glbandits.evaluation.readers.table_rows import read_rows

ROW = "\0row"
"""The column with the index of a row in the table."""
NAMED_AT_ONCE = 100
"""Maximum number of arms whose probabilities one expression compares with the propensity."""


def check_table(table: pl.LazyFrame, layout: TableLayout) -> bool:
    """Raise InvalidInput with the first invalid row. Return whether all rows were checked.

    Expressions check logs with the same arms in all rows and with numbers in all columns of numbers. Other logs are
    checked when a block is read.
    """
    schema = table.collect_schema()
    numbers = [name for role in OF_EACH_ARM for name in layout.columns_of_each_arm(role)]
    numbers += [name for name in (layout.columns.reward, layout.columns.propensity) if name is not None]
    if not layout.fixed or not all(is_number(schema[name]) for name in numbers) or _has_structs(layout):
        return False
    if layout.columns.probabilities is not None and len(layout.arm_names) > NAMED_AT_ONCE:
        return False
    invalid = reduce(or_, (condition.fill_null(True) for condition in _conditions(layout)))
    wanted = layout.without_features.wanted
    rows = table.select(wanted).with_row_index(ROW).select(pl.col(ROW).filter(invalid).min())
    first = rows.collect(engine="streaming").item()
    if first is None:
        return True
    read_rows(table.select(wanted).slice(first, 1).collect(), layout.without_features, first)
    return False  # within the rounding of two sums


def _has_structs(layout: TableLayout) -> bool:
    columns = layout.columns
    return any(getattr(columns, role) is not None and role not in columns.patterns for role in OF_EACH_ARM)


def _conditions(layout: TableLayout) -> Iterator[pl.Expr]:
    """Whether a row is invalid, in the order of the messages. Null means that it is."""
    columns = layout.columns
    arm = pl.col(columns.arm)
    yield ~arm.is_in(layout.arm_names) if layout.has_arm_table else arm.is_null()
    yield _not_finite(columns.reward)
    propensity = None if columns.propensity is None else pl.col(columns.propensity).cast(pl.Float64)
    if propensity is not None:
        yield ~((propensity > 0.0) & (propensity <= 1.0))
    of_arms = layout.columns_of_each_arm("probabilities")
    if of_arms:
        each = [pl.col(name).cast(pl.Float64) for name in of_arms]
        yield reduce(or_, (~(one >= 0.0) for one in each))
        yield ~((pl.sum_horizontal(each) - 1.0).abs() <= PROBABILITY_ROUNDING)
        own = pl.coalesce(*(pl.when(arm == name).then(one) for name, one in zip(layout.arm_names, each, strict=True)))
        yield ~(own > 0.0)
        if propensity is not None:
            yield ~((own - propensity).abs() <= PROBABILITY_ROUNDING * propensity)
    for name in layout.columns_of_each_arm("values"):
        yield _not_finite(name) | (pl.col(name) < 0.0)
    for name in layout.columns_of_each_arm("costs"):
        yield _not_finite(name)
    if columns.cluster is not None:
        yield pl.col(columns.cluster).is_null()


def _not_finite(name: str) -> pl.Expr:
    number = pl.col(name).cast(pl.Float64)
    return ~(number.is_finite() & number.is_between(-MAX_ABS, MAX_ABS))
