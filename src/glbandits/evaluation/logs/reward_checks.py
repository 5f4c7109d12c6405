"""The link of a log, and checks of its rewards against the range of the link, which `maths.links` defines."""

from collections.abc import Callable

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, check_float, value_text
from glbandits.maths.links import Link

AUTO_LINK = "auto"
"""The default link of a log, which `inferred_link` replaces."""


def inferred_link(link: str | Link, *, are_binary: bool) -> str | Link:
    """Return the link; for "auto" "logistic" if rewards are 0 and 1, else "identity"."""
    return ("logistic" if are_binary else "identity") if link == AUTO_LINK else link


def are_binary(rewards: Floats) -> bool:
    """Whether rewards are 0 and 1. Not so if only one of them occurs, which leaves other values possible.

    >>> are_binary(np.array([0.0, 1.0, 0.0])), are_binary(np.array([0.0, 0.5, 1.0])), are_binary(np.array([0.0, 0.0]))
    (True, False, False)
    """
    ones = rewards == 1.0
    return bool(ones.any() and not ones.all() and (ones | (rewards == 0.0)).all())


def link_of(rewards: Floats) -> str | Link:
    """Return the link of rewards of which some may be missing, NaN: logistic if the others are 0 and 1."""
    return inferred_link(AUTO_LINK, are_binary=are_binary(rewards[~np.isnan(rewards)]))


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
