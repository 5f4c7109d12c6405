"""Checks of the column of rewards of a table."""

import numpy as np
import polars as pl

from glbandits.common.arrays import Floats
from glbandits.common.errors import MAX_ABS
from glbandits.evaluation.logs.logged_data import BLOCK
from glbandits.evaluation.logs.reward_checks import are_binary, check_rewards
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


def binary_rewards(reward: pl.Expr) -> pl.Expr:
    """Return whether all rewards are 0 and 1, as in `are_binary`."""
    return (reward.min() == 0.0) & (reward.max() == 1.0) & ((reward == 0.0) | (reward == 1.0)).all()
