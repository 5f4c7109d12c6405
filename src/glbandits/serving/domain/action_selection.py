"""One decision: the chance of each action, and the draw. Nothing here reads a clock or a file."""

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b

import msgspec
import numpy as np
from numba import types

from glbandits.bandit import Bandit
from glbandits.compilation import Recipe, entry_point
from glbandits.errors import InvalidInput
from glbandits.numba_support import READ_INTS, READ_VECTOR, VECTOR, jittable
from glbandits.records import Floats, Ints


class Choice(msgspec.Struct, frozen=True):
    """What was drawn, and from what."""

    chosen: int
    probabilities: Floats
    """The exact chance of each action, (K,); 0 for one that was not allowed."""


def seed_of(salt: str, event_id: str, slot: str) -> int:
    """63 random bits for the draw of an event: the same for the same event in the same loop."""
    digest = blake2b(f"{salt}\0{event_id}\0{slot}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # which fits a signed number of a database


@cache
def _all(count: int) -> Ints:
    places = np.arange(count)
    places.flags.writeable = False
    return places


def allowed_places(count: int, excluded: Sequence[int]) -> Ints:
    """The places of those actions that may be chosen."""
    if not excluded:
        return _all(count)
    allowed = np.setdiff1d(_all(count), np.asarray(excluded, dtype=np.int64))
    if not len(allowed):
        raise InvalidInput("all actions are excluded; leave at least one")
    return allowed


def decide(model: Bandit, arms: Floats, allowed: Ints, exploration: float, seed: int) -> Choice:
    """Draw one of the allowed actions, by the model's chances and a share of exploration.

    The chances are those of the rule that draws: the model's own, exact, times 1 - exploration, and exploration shared
    among the allowed actions alike.
    """
    chances = _chances(model, arms, allowed)
    if chances is None:
        raise InvalidInput(
            f"{model.policy.name} cannot say the exact chance of an action, which a service must log; use optimist"
        )
    probabilities = np.zeros(len(arms))
    chosen: int = entry_point(draw_recipe).call(chances, allowed, exploration, share_of(seed), probabilities)
    return Choice(chosen, probabilities)


def _chances(model: Bandit, arms: Floats, allowed: Ints) -> Floats | None:
    """The model's own, of the allowed actions."""
    chances = model.exact_probabilities(arms)  # of all, because the others must be usable too: they are logged
    return chances if len(allowed) == len(arms) else model.exact_probabilities(arms[allowed])


def share_of(seed: int) -> float:
    """A uniform number: the first 53 bits of the seed."""
    return (seed >> 10) * 2.0**-53


@jittable
def draw(probabilities: Floats, share: float) -> int:
    """The place where the running sum of the chances passes a share of all."""
    whole = 0.0
    for chance in probabilities:
        whole += chance
    below, last = 0.0, 0
    for place in range(len(probabilities)):
        if probabilities[place] > 0.0:
            last = place
        below += probabilities[place]
        if below > share * whole:
            return place
    return last


def draw_recipe() -> Recipe:
    """A function that writes the chances of the allowed actions, with a share of exploration, to their places.

    Then it draws one of them.
    """

    def mix_and_draw(chances: Floats, allowed: Ints, exploration: float, share: float, probabilities: Floats) -> int:
        for place in range(len(allowed)):
            probabilities[allowed[place]] = (1.0 - exploration) * chances[place] + exploration / len(allowed)
        return draw(probabilities, share)

    signature = types.int64(READ_VECTOR, READ_INTS, types.float64, types.float64, VECTOR)
    return Recipe(mix_and_draw, signature, "draw of an action", nogil=False)
