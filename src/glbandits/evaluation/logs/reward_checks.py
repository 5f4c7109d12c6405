"""Check the rewards of a log against the range of a link, which `maths.links` defines."""

from collections.abc import Callable

import numpy as np

from glbandits.errors import InvalidInput
from glbandits.maths.links import Link
from glbandits.records import Floats


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
            raise InvalidInput(f"{describe_row(row)}: {error.template}") from None
