"""Read the arms of decisions from a table: one row for each context, or one row for each arm of a context."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from glbandits.bandit import Bandit
from glbandits.bandit.arm_batch import ArmBlock
from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.logged_data import BLOCK, block_size
from glbandits.evaluation.readers.column_values import column_error, float_values
from glbandits.evaluation.readers.columns import EACH_ARM, Columns, columns_of
from glbandits.evaluation.readers.csv_files import declared_texts
from glbandits.evaluation.readers.frames import convert_polars_errors, read_arm_table
from glbandits.evaluation.readers.open_log import scan_log
from glbandits.evaluation.readers.payoff_table import read_payoffs
from glbandits.evaluation.readers.table_log import SPARSE_FEATURES
from glbandits.features import FeatureMap
from glbandits.features.kinds.categorical import as_category
from glbandits.features.table_columns import check_present
from glbandits.maths.sparse_rows import as_sparse_rows


@dataclass(frozen=True, kw_only=True)
class OfferColumns:
    """The columns of a table of decisions, besides those of the model's feature map."""

    id: str | None = None
    """Identifies a decision; None for the row number. If `arm` is given, the rows of a decision follow each other."""
    arm: str | None = None
    """The names of arms, if the table has one row for each arm of a decision. None if a row is a context, for which all
    arms are offered."""
    payoffs: tuple[str, ...] = ()
    """Values and, optionally, costs: patterns such as "value_{arm}" in a table of contexts, else columns."""

    def __post_init__(self) -> None:
        if self.arm is not None and self.id is None:
            raise InvalidInput("a table with a row for each arm needs the column that identifies a context", field="id")
        if len(self.payoffs) > 2 or any((EACH_ARM in name) == (self.arm is not None) for name in self.payoffs):
            wanted = f"value_{EACH_ARM},cost_{EACH_ARM}" if self.arm is None else "value,cost"
            raise InvalidInput(
                f"payoffs must name columns of values and costs, such as {wanted}; got {','.join(self.payoffs)}",
                field="payoffs",
            )


class Offers(NamedTuple):
    """The arms of several decisions."""

    ids: pl.Series
    names: Sequence[str]
    """Of each arm."""
    arms: ArmBlock


class OfferTable:
    """A table of decisions, which is read in blocks.

    Args:
        source: a CSV, Parquet or JSON-lines file.
        bandit: the model that will decide.
        columns: the meaning of the columns.
        arm_table: a file with a row for each arm, whose first column has the names. By default the arms are those that
            have a block of features in the model.
        payoff_table: a file with the columns arm, value and cost.

    Raises InvalidInput if the table lacks a column of the model.
    """

    def __init__(
        self,
        source: str | PathLike[str],
        bandit: Bandit,
        columns: OfferColumns,
        *,
        arm_table: str | PathLike[str] | None = None,
        payoff_table: str | PathLike[str] | None = None,
    ) -> None:
        if not isinstance(bandit.features, FeatureMap):
            raise InvalidInput("the model has no feature map, so it knows no columns. Train it with glb train")
        if columns.arm is not None and arm_table is not None:
            raise InvalidInput(
                f"arm_table is for tables without a column of arms; got {arm_table} and the column {columns.arm!r}. "
                "Leave one of them out",
                field="arm_table",
            )
        self._bandit, self._map, self._columns = bandit, bandit.features, columns
        self._payoff_table = None if payoff_table is None else read_payoffs(payoff_table)
        texts = declared_texts({"features": self._map})
        self._names: list[str] = []
        self._arms: pl.DataFrame | None = None
        if columns.arm is None:
            self._names, self._arms = _all_arms(self._map, arm_table, texts)
        self._patterns = dict[str, str]()
        """The pattern of the columns of each value that a context has for each arm."""
        own = self._map.own.kinds
        if columns.arm is None and own:
            known = _scan(source, Columns(propensity=None, probabilities=None), texts).collect_schema().names()
            self._patterns = {name: _pattern_of(name, self._names, known) for name in own}
        wanted = self._wanted()
        texts += [name for name in (columns.id, columns.arm) if name is not None]  # so that 01 stays 01
        context = tuple(name for name in wanted if name not in texts)
        named = Columns(propensity=None, probabilities=None, arm=columns.arm or "", reward="", context=context)
        table = _scan(source, named, texts)
        with convert_polars_errors():
            check_present(wanted, table.collect_schema().names(), str(source))
            self._table = table.select(wanted)
            self.rows = self._count_rows()
            """The number of rows."""

    def _wanted(self) -> list[str]:
        """The columns that the table must have."""
        columns, names = self._columns, list(self._map.kinds if self._arms is None else self._map.context.kinds)
        for pattern in (*self._patterns.values(), *columns.payoffs):
            names += columns_of(pattern, self._names or [""])
        return list(dict.fromkeys([*names, *filter(None, [columns.id, columns.arm])]))

    def _count_rows(self) -> int:
        """Return the number of rows. Raises InvalidInput unless each id is at one place of the table."""
        counts, columns = [pl.len()], self._columns
        if columns.id is not None:
            ids, dtype = pl.col(columns.id), self._table.collect_schema()[columns.id]
            if dtype.is_nested():
                raise InvalidInput(f"column {columns.id!r} must have one value in each row; got {dtype}", field="id")
            starts = pl.len() if columns.arm is None else (ids != ids.shift()).fill_null(True).sum()
            empty = ids.is_null() | (ids.cast(pl.String).str.strip_chars() == "")
            counts += [starts, ids.n_unique(), empty.sum()]
        labelled = [count.alias(str(index)) for index, count in enumerate(counts)]
        rows, *of_ids = self._table.select(labelled).collect(engine="streaming").row(0)
        places, distinct, missing = of_ids or (0, 0, 0)
        if missing:
            raise InvalidInput(f"column {columns.id!r} must identify contexts; {missing:,} rows have none", field="id")
        if places != distinct:
            need, advice = "whose rows follow each other", "Sort the table by it"
            if columns.arm is None:
                need, advice = "of one row each", "If a context has a row for each arm, name the column of arms"
            raise InvalidInput(
                f"column {columns.id!r} must identify contexts {need}; {distinct:,} ids are at {places:,} places. "
                f"{advice}",
                field="id",
            )
        return int(rows)

    def blocks(self) -> Iterator[tuple[int, Offers]]:
        """Yield the decisions in their order, in blocks, each with the number of rows read so far."""
        size = block_size(BLOCK, max(1, len(self._names)), SPARSE_FEATURES if self._bandit.sparse else self._map.dim)
        done, kept = 0, self._table.head(0).collect()
        with convert_polars_errors():
            for read in self._table.collect_batches(chunk_size=size, maintain_order=True):
                rows = pl.concat([kept, read])
                first, done, kept = done - len(kept), done + len(read), kept.clear()
                if self._arms is None and done < self.rows:  # the last decision may continue in the next block
                    last = rows[str(self._columns.id)] == rows[str(self._columns.id)][-1]
                    rows, kept = rows.filter(~last), rows.filter(last)
                if len(rows):
                    offers = self._of_arms(rows, first) if self._arms is None else self._of_contexts(rows, first)
                    table = self._payoff_table
                    if table is not None:
                        offers = offers._replace(arms=offers.arms._replace(payoffs=table.of(offers.names)))
                    yield done, offers

    def _of_contexts(self, rows: pl.DataFrame, first: int) -> Offers:
        """The decisions of rows that are contexts, with every arm for each."""
        assert self._arms is not None
        n, count, columns = len(rows), len(self._names), self._columns
        own = {name: self._spread(rows, pattern).to_list() for name, pattern in self._patterns.items()}
        at_rows = first + np.repeat(np.arange(n), count)
        payoffs = _payoffs([self._spread(rows, pattern) for pattern in columns.payoffs], at_rows)
        ids = pl.Series("row", np.arange(first, first + n)) if columns.id is None else rows[columns.id]
        with self._rows_from(first):
            features = self._map.pairs(rows, self._arms, own, sparse=self._bandit.sparse)
        return Offers(ids, self._names * n, ArmBlock(self._usable(features), np.arange(n + 1) * count, payoffs))

    def _spread(self, rows: pl.DataFrame, pattern: str) -> pl.Series:
        """The values of a pattern for each row and arm."""
        values = zip(*(rows[name].to_list() for name in columns_of(pattern, self._names)), strict=True)
        return pl.Series(pattern, [value for row in values for value in row], strict=False)

    def _of_arms(self, rows: pl.DataFrame, first: int) -> Offers:
        """The decisions of rows that are arms."""
        ids, names = rows[str(self._columns.id)], rows[str(self._columns.arm)].cast(pl.String)
        _check_once(names, ids, first, "must name each arm of a context once", "arm")
        starts = np.flatnonzero((ids != ids.shift()).fill_null(True).to_numpy())
        payoffs = _payoffs([rows[name] for name in self._columns.payoffs], first)
        with self._rows_from(first):
            features = self._map.transform(rows, sparse=self._bandit.sparse)
        arms = ArmBlock(self._usable(features), np.append(starts, len(rows)), payoffs)
        return Offers(ids[starts], names.to_list(), arms)

    @contextmanager
    def _rows_from(self, first: int) -> Iterator[None]:
        """Errors about a row of a block name the row of the table."""
        try:
            yield
        except InvalidInput as error:
            message = re.sub(r"\brow (\d+)", lambda found: f"row {first + int(found[1])}", str(error))
            raise InvalidInput(message, field=error.field) from None

    def _usable(self, features: Any) -> Any:
        return as_sparse_rows(features, self._map.dim, "arms") if self._bandit.sparse else features


def _scan(source: str | PathLike[str], columns: Columns, texts: Sequence[str]) -> pl.LazyFrame:
    """The table. Raises InvalidInput for a log in a format that defines its columns."""
    table = scan_log(source, columns, texts=texts)
    if table is None:
        raise InvalidInput(f"{source} is a log in a format of its own. Name a CSV, Parquet or JSON-lines table")
    return table


def _pattern_of(name: str, arm_names: Sequence[str], known: Sequence[str]) -> str:
    """The pattern of the columns with a value for each arm, of which a model knows the name, such as affinity."""
    for column in known:
        for found in re.finditer(re.escape(arm_names[0]), column):
            pattern = f"{column[: found.start()]}{EACH_ARM}{column[found.end() :]}"
            if Columns(per_arm=(pattern,)).per_arm_names == (name,):
                return pattern
    raise InvalidInput(
        f"the model needs a column {name}_{EACH_ARM} for each arm, such as {name}_{arm_names[0]}; got none"
    )


def _all_arms(
    feature_map: FeatureMap, arm_table: str | PathLike[str] | None, texts: Sequence[str]
) -> tuple[list[str], pl.DataFrame]:
    """The names of all arms, and their columns in the feature map."""
    kinds, block = feature_map.arm.kinds, feature_map.per_arm_block
    if arm_table is not None:
        arms = read_arm_table(arm_table, texts)
        names = arms.to_series(0).cast(pl.String)
        _check_once(names, repeat(0), 0, "must name each arm of arm_table once", "arm_table")
        arms = arms if block is None else arms.with_columns(names.alias(block))
        check_present(kinds, arms.columns, str(arm_table), field="arm_table")
        return names.to_list(), arms.select(list(kinds))
    known = feature_map.arm_names
    if not known:
        raise InvalidInput(
            f"the model describes arms by the columns {', '.join(kinds) or 'of the context only'}, and does not "
            "list them. Name a table with a row for each arm",
            field="arm_table",
        )
    return list(known), pl.DataFrame({str(block): known})


def _check_once(names: pl.Series, contexts: Iterable[Any], first: int, need: str, field: str) -> None:
    """Raise InvalidInput unless each context has each arm once. Names are compared as categories."""
    seen = set[tuple[Any, str | None]]()
    for row, key in enumerate(zip(contexts, map(as_category, names), strict=False)):
        if key[1] is None or key in seen:
            raise column_error(names, row, first, need, field=field)
        seen.add(key)


def _payoffs(columns: Sequence[pl.Series], row_numbers: int | Ints) -> Floats | None:
    """The values and costs of all arms, (2, arms); None without columns."""
    if not columns:
        return None
    values, *costs = (float_values(column, row_numbers) for column in columns)
    if (values < 0.0).any():
        raise column_error(columns[0], int(np.argmax(values < 0.0)), row_numbers, "must be at least 0")
    return np.array([values, *(costs or [np.zeros(len(values))])])
