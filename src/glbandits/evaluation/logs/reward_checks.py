"""Check the range of rewards, and the rewards of a log against the range of a link, which `maths.links` defines."""

from collections.abc import Callable

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, check_float, value_text
from glbandits.maths.links import Link


def check_rewards(rewards: Floats, link: Link, describe_row: Callable[[int], str]) -> None:
    """Raise InvalidInput if a reward is outside the range of the link.

    The message begins with `describe_row` of the index of the first such reward.
    """
    wrong = ~((rewards >= link.lowest_reward) & (rewards <= link.highest_reward))
    if wrong.any():
        row = int(np.argmax(wrong))
        try:
            link.check_reward(float(rewards[row]))
        except InvalidInput as error:
            raise InvalidInput(f"{describe_row(row)}: {error}", field=error.field) from None


def check_reward_range(given: tuple[float, float] | None, link: Link) -> tuple[float, float]:
    """Return the lowest and the highest possible reward; by default those of the link."""
    if given is None:
        return link.lowest_reward, link.highest_reward
    bounds = [check_float("reward_range", bound) for bound in given]
    if len(bounds) != 2 or not bounds[0] < bounds[1]:
        raise InvalidInput(
            f"reward_range must be the lowest and then the highest reward; got {value_text(given)}",
            field="reward_range",
        )
    return bounds[0], bounds[1]
