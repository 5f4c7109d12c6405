"""One decision: the chance of each action, and the draw. Nothing here reads a clock or a file."""

from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from glbandits.bandit import Bandit
from glbandits.errors import InvalidInput
from glbandits.records import Floats, Ints


class Choice(NamedTuple):
    """What was drawn, and from what."""

    chosen: int
    probabilities: Floats
    """The exact chance of each action, (K,); 0 for one that was not allowed."""


def seed_of(salt: str, event_id: str, slot: str) -> int:
    """63 random bits for the draw of an event: the same for the same event in the same loop."""
    digest = blake2b("\0".join((salt, event_id, slot)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # which fits a signed number of a database


def decide(model: Bandit, arms: Floats, allowed: Ints, exploration: float, seed: int) -> Choice:
    """Draw one of the allowed actions, by the model's chances and a share of exploration.

    The chances are those of the rule that draws: the model's own, exact, times 1 - exploration, and exploration shared
    among the allowed actions alike.
    """
    chances = model.exact_probabilities(arms[allowed])
    if chances is None:
        raise InvalidInput(
            f"{model.policy.name} cannot say the exact chance of an action, which a service must log; use optimist"
        )
    probabilities = np.zeros(len(arms))
    probabilities[allowed] = (1.0 - exploration) * chances + exploration / len(allowed)
    return Choice(draw(probabilities, seed), probabilities)


def draw(probabilities: Floats, seed: int) -> int:
    """The place where the running sum of the chances passes a uniform number: the first 53 bits of the seed."""
    below = np.cumsum(probabilities)
    chosen = int(np.searchsorted(below, (seed >> 10) * 2.0**-53 * below[-1], side="right"))
    return min(chosen, int(np.flatnonzero(probabilities)[-1]))
