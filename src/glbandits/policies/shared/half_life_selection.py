"""`half_life="auto"`: learn with several half-lives at once, and forget when rewards have changed.

The state contains several copies of the state of a policy. Every copy learns every reward. The first, the main copy,
takes all decisions and forgets nothing. The others have half-lives of HALF_LIVES (d + 1) rewards. Before a reward is
learned, each of these others gets a log-likelihood ratio against the main copy:

    (loss of the main copy - loss of this copy) / dispersion.

Its evidence is the CUSUM statistic of this ratio (a sum that never falls below 0). When the evidence of a copy exceeds
the threshold, the copy replaces the main copy, which then learns on without forgetting. All evidence is reset to 0.

The threshold contains log(rewards per change so far), so a policy that has seen no change requires more evidence.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import jittable
from glbandits.maths.links import LinkFunctions
from glbandits.policies.contract import Policy, StateLayout
from glbandits.policies.shared.posterior_state import INTERCEPT, dispersion, mean_at

HALF_LIVES = (80.0, 25.0, 8.0)
"""Half-lives of the copies that forget, in units of d + 1 rewards."""
COPIES = len(HALF_LIVES) + 1
LARGEST_UNIT = 129.0
"""Upper limit of the unit d + 1 in which half-lives are given."""
THRESHOLD = 1.5
"""Threshold of the evidence, without the logarithm."""
ASSUMED_REWARDS = 1000.0
"""Rewards without a change that the threshold counts as already seen."""
LARGEST_STEP = 3.0
"""Limit of the log-likelihood ratio of one reward, so that an outlier is not taken for a change."""

FIRST_COMPARISON = 16.0
"""Rewards before copies are compared, in units of d + 1. Before that, copies differ mainly by their priors."""

LAYOUT = StateLayout()
REWARDS, CHANGES = LAYOUT.count("rewards"), LAYOUT.count("changes")
"""The number of rewards learned, and of replacements of the main copy."""
_evidence = [LAYOUT.scalar(f"evidence_{i}", at_least=0.0) for i in range(1, COPIES)]
EVIDENCE = _evidence[0] - 1
"""The evidence of copy i is at EVIDENCE + i."""
FIRST = EVIDENCE + COPIES
"""The offset of the copies. Each copy is preceded by its length, because copies may grow."""
FIRST_COPY = FIRST + 1
"""The offset of the main copy, after its length."""


class CopySettings(NamedTuple):
    """The packed settings of the copied policy."""

    floor: float
    noise: float
    bernoulli: float
    intercept_precision: float
    memory: float
    covariance: float


@jittable
def copy_settings(settings: Any, half_life: float) -> CopySettings:
    """Return the settings for a copy with this half-life."""
    return CopySettings(
        settings.floor,
        settings.noise,
        settings.bernoulli,
        settings.intercept_precision,
        half_life,
        settings.covariance,
    )


def initial_copies(state: Floats) -> Floats:
    """Return the initial state, made of copies of the copied policy's initial state."""
    return np.concatenate([np.zeros(FIRST), *([[state.size], state] * COPIES)])


def are_valid_copies(state: Floats, dim: int, copied: Policy) -> bool:
    """Whether this array can be a state that contains copies of states of the policy `copied`."""
    if state.ndim != 1 or not LAYOUT.is_valid(state[:FIRST], dim):
        return False
    start = FIRST
    for _ in range(COPIES):
        if start >= state.size or not (0 <= state[start] < state.size and float(state[start]).is_integer()):
            return False
        end = start + 1 + int(state[start])
        if end > state.size or not copied.is_valid_state(state[start + 1 : end], dim):
            return False
        start = end
    return start == state.size


@jittable
def copy_start(state: Floats, index: int) -> int:
    """The offset of a copy."""
    start = FIRST_COPY
    for _ in range(index):
        start += int(state[start - 1]) + 1
    return start


@jittable
def copy_of(state: Floats, index: int) -> Floats:
    """Return a copy, as a slice of the state."""
    start = copy_start(state, index)
    return state[start : start + int(state[start - 1])]


@jittable
def main_copy(state: Floats) -> Floats:
    """Return the copy that takes the decisions, as a slice of the state."""
    return copy_of(state, 0)


@jittable
def with_copy(state: Floats, index: int, copy: Floats) -> Floats:
    """Replace a copy by another array. Returns the state, a new array if the length differs."""
    start = copy_start(state, index)
    size = int(state[start - 1])
    if copy.shape[0] != size:
        state = np.concatenate((state[:start], copy, state[start + size :]))
        state[start - 1] = copy.shape[0]
    else:
        state[start : start + size] = copy
    return state


@jittable
def half_life_of(index: int, dim: int) -> float:
    """The half-life of a copy, in rewards."""
    return math.inf if index == 0 else HALF_LIVES[index - 1] * min(dim + 1.0, LARGEST_UNIT)


@jittable
def loss_of(copy: Floats, x: Floats, reward: float, link: LinkFunctions) -> float:
    """The negative log-likelihood of a reward under a copy, up to a constant."""
    mean, score = mean_at(x.shape[0]), float(copy[INTERCEPT])
    for i in range(x.shape[0]):
        score += x[i] * copy[mean + i]
    return float(link.antiderivative(score) - reward * score)


@jittable
def add_evidence(state: Floats, noise: float, x: Floats, reward: float, link: LinkFunctions) -> None:
    """Update the evidence of every copy by a reward that no copy has learned yet."""
    if state[REWARDS] < FIRST_COMPARISON * min(x.shape[0] + 1.0, LARGEST_UNIT):
        return
    main = main_copy(state)
    main_loss, phi = loss_of(main, x, reward, link), dispersion(main, noise)
    for i in range(1, COPIES):
        ratio = (main_loss - loss_of(copy_of(state, i), x, reward, link)) / phi
        ratio = min(max(ratio, -LARGEST_STEP), LARGEST_STEP) if math.isfinite(ratio) else 0.0
        state[EVIDENCE + i] = max(state[EVIDENCE + i] + ratio, 0.0)


@jittable
def replace_main_copy(state: Floats) -> Floats:
    """Count a reward, and replace the main copy if there is enough evidence of a change.

    Returns the state.
    """
    state[REWARDS] += 1.0
    best = 1
    for i in range(2, COPIES):
        if state[EVIDENCE + i] > state[EVIDENCE + best]:
            best = i
    rewards_per_change = (state[REWARDS] + ASSUMED_REWARDS) / (state[CHANGES] + 1.0)
    if state[EVIDENCE + best] > THRESHOLD + math.log(rewards_per_change):
        state = with_copy(state, 0, copy_of(state, best))
        state[CHANGES] += 1.0
        for i in range(1, COPIES):
            state[EVIDENCE + i] = 0.0
    return state
