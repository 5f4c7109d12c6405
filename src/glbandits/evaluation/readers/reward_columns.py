"""Checks of the column of rewards of a table."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from glbandits.common.arrays import Floats
from glbandits.common.errors import MAX_ABS, InvalidInput
from glbandits.evaluation.logs.logged_data import BLOCK
from glbandits.evaluation.logs.reward_checks import AUTO_LINK, are_binary, check_rewards, inferred_link
from glbandits.evaluation.readers.column_values import is_number, reward_values
from glbandits.maths.links import Link


def checked_rewards(series: pl.Series, link: Link, first_row: int) -> Floats:
    """Return the rewards of a column. Raises InvalidInput if one is outside the range of the link."""
    rewards = reward_values(series, first_row)
    check_rewards(rewards, link, lambda row: f"column {series.name!r}, row {first_row + row}")
    return rewards


def check_all_rewards(table: pl.LazyFrame, name: str, link: Link) -> bool:
    """Raise InvalidInput if a reward is invalid, before anything slow begins. Return whether they are 0 and 1."""
    first_row, different = 0, np.zeros(0)
    for rows in table.select(name).collect_batches(chunk_size=BLOCK, maintain_order=True):
        rewards = checked_rewards(rows[name], link, first_row)
        first_row, different = first_row + len(rewards), np.unique(np.concatenate([different[:3], rewards]))
    return are_binary(different)


def valid_rewards(name: str, kind: pl.DataType, link: Link) -> list[pl.Expr]:
    """Return whether all rewards are valid numbers, and whether they are 0 and 1.

    Text is not valid here: it must be parsed.
    """
    if not is_number(kind):
        return [pl.lit(False).alias("valid_rewards")]
    reward, lowest, highest = pl.col(name).cast(pl.Float64), link.lowest_reward, link.highest_reward
    valid = reward.is_finite() & reward.is_between(max(lowest, -MAX_ABS), min(highest, MAX_ABS))
    return [valid.fill_null(False).all().alias("valid_rewards"), binary_rewards(reward).alias("binary")]


def links_of_others(table: pl.LazyFrame, names: Sequence[str]) -> dict[str, str | Link]:
    """Return the link of each column of other rewards. Raises InvalidInput unless they are numbers or missing."""
    schema = table.collect_schema()
    for name in names:
        if not is_number(schema[name]):
            raise InvalidInput(
                f"column {name!r} must have numbers, as an other reward; got {schema[name]}. Cast it first",
                field="Columns.other_rewards",
            )
    numbers = {name: pl.col(name).cast(pl.Float64).fill_nan(None) for name in names}
    infinite = [numbers[name].is_between(-MAX_ABS, MAX_ABS).all().alias(name) for name in names]
    queries = [table.select(infinite), table.select([binary_rewards(numbers[name]).alias(name) for name in names])]
    valid, binary = pl.collect_all(queries, engine="streaming") if names else (pl.DataFrame(), pl.DataFrame())
    for name in names:
        if valid[name].item() is False:
            raise InvalidInput(f"column {name!r} must have finite numbers; a row has none. Fill it in, or drop it")
    return {name: inferred_link(AUTO_LINK, are_binary=bool(binary[name].item())) for name in names}


def binary_rewards(reward: pl.Expr) -> pl.Expr:
    """Return whether all rewards are 0 and 1, as in `are_binary`."""
    return (reward.min() == 0.0) & (reward.max() == 1.0) & ((reward == 0.0) | (reward == 1.0)).all()
