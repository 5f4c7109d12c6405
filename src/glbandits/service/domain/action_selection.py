"""Select an action: the probability of each action, and the draw from a seed."""

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b

import msgspec
import numpy as np
from numba import types

from glbandits.bandit import Bandit
from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput
from glbandits.compilation.entry_point import entry_point
from glbandits.compilation.numba_support import READ_INTS, READ_VECTOR, VECTOR, jittable
from glbandits.compilation.recipe import Recipe
from glbandits.maths.sparse_rows import SparseRows
from glbandits.service.domain.loop_config import LIMITS_OUTLIERS
from glbandits.service.domain.request_features import Arms, count_of, rows_of

LARGEST_FEATURE = 1000.0
"""The largest absolute value of a feature for policies that do not limit outliers. Their priors assume features of
about size 1. Ids, timestamps and sums of money are mostly above it."""


class Choice(msgspec.Struct, frozen=True):
    """The drawn action, and the probabilities of the draw."""

    chosen: int
    """Index of the action."""
    probabilities: Floats
    """The exact probability of each action, (K,); 0 for an action that was not allowed."""


def seed_of(salt: str, event_id: str, slot: str) -> int:
    """Return the seed of the draw of an event: 63 pseudo-random bits.

    The same event in the same loop has the same seed.
    """
    digest = blake2b(f"{salt}\0{event_id}\0{slot}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # fits a signed 64-bit column


@cache
def _all_indices(count: int) -> Ints:
    indices = np.arange(count)
    indices.flags.writeable = False
    return indices


def allowed_indices(count: int, excluded: Sequence[int]) -> Ints:
    """Return the indices of the actions that may be chosen.

    Raises InvalidInput if all are excluded.
    """
    if not excluded:
        return _all_indices(count)
    allowed = np.setdiff1d(_all_indices(count), np.asarray(excluded, dtype=np.int64))
    if not len(allowed):
        raise InvalidInput("all actions are excluded; leave at least one")
    return allowed


def check_features(model: Bandit, arms: Arms) -> None:
    """Raise InvalidInput if a feature is too large for a policy that does not limit outliers."""
    if model.policy.name in LIMITS_OUTLIERS:
        return
    values = arms.values if isinstance(arms, SparseRows) else arms
    largest = float(np.abs(values).max(initial=0.0))
    if largest > LARGEST_FEATURE:
        raise InvalidInput(
            f"features must be at most {LARGEST_FEATURE:g} for {model.policy.name}, which does not limit outliers; got "
            f"{largest:g}. Scale the feature, send an id as text, or use optimist"
        )


def decide(
    model: Bandit,
    arms: Arms,
    allowed: Ints,
    exploration: float,
    seed: int,
    values: Sequence[float] | None = None,
    costs: Sequence[float] | None = None,
) -> Choice:
    """Draw one of the allowed actions.

    With probability `exploration` each allowed action is equally likely, otherwise the model decides, by payoffs if
    `values` has the value of each action. Raises InvalidInput if the policy has no exact probabilities, or if the model
    refuses the payoffs.
    """
    check_features(model, arms)
    # First for all actions: what is sent of excluded actions is logged too, so the model must accept it.
    own = model.exact_probabilities(arms, values=values, costs=costs)
    if len(allowed) < count_of(arms):
        own_values, own_costs = (None if each is None else np.array(each)[allowed] for each in (values, costs))
        own = model.exact_probabilities(rows_of(arms, allowed), values=own_values, costs=own_costs)
    if own is None:
        raise InvalidInput(
            f"{model.policy.name} has no exact probabilities of actions, which a service must log. Use optimist."
        )
    probabilities = np.zeros(count_of(arms))
    chosen: int = entry_point(draw_recipe).call(own, allowed, exploration, uniform_of(seed), probabilities)
    return Choice(chosen, probabilities)


def uniform_of(seed: int) -> float:
    """Return a number in [0, 1) from the first 53 of the 63 bits of a seed.

    It is uniform if the seed is.
    """
    return (seed >> 10) * 2.0**-53


@jittable
def draw(probabilities: Floats, share: float) -> int:
    """Return the index at which the cumulative probability exceeds `share` of the total."""
    total = 0.0
    for probability in probabilities:
        total += probability
    cumulative, last = 0.0, 0
    for index in range(len(probabilities)):
        if probabilities[index] > 0.0:
            last = index
        cumulative += probabilities[index]
        if cumulative > share * total:
            return index
    return last


def draw_recipe() -> Recipe:
    """Return the compiled function that adds exploration to probabilities and draws an action."""

    def mix_and_draw(own: Floats, allowed: Ints, exploration: float, share: float, probabilities: Floats) -> int:
        for index in range(len(allowed)):
            probabilities[allowed[index]] = (1.0 - exploration) * own[index] + exploration / len(allowed)
        return draw(probabilities, share)

    signature = types.int64(READ_VECTOR, READ_INTS, types.float64, types.float64, VECTOR)
    return Recipe(mix_and_draw, signature, "draw of an action", nogil=False)
