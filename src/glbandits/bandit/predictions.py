"""What a Bandit predicts: expected rewards with intervals, and probabilities of decisions without an exact form.

Probabilities are estimated from trial decisions on a random stream of their own, so that estimates change no decision.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from glbandits.bandit.entry_points import means_recipe
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.common.errors import InvalidInput, check_float
from glbandits.compilation.entry_point import entry_point
from glbandits.maths.line_order import orders
from glbandits.maths.links import Link, own_link
from glbandits.maths.philox import COUNTER, KEY
from glbandits.policies.contract import Policy

LARGEST_INTERVAL = 1.0 - 1e-9
FIRST_PROBE_STREAM = np.uint64(1)
"""The first random stream for estimates of probabilities."""
FEW_SCORES = 1000
"""Up to so many scores, plain Python computes expected rewards."""
DEFAULT_DRAWS = 10_000
"""Trial decisions of an estimate of probabilities."""


class Prediction(NamedTuple):
    """Expected rewards of arms, and the limits of their intervals, each (K,)."""

    mean: Floats
    low: Floats
    high: Floats


class Ranking(NamedTuple):
    """Different arms in order, the best first."""

    arms: Ints
    """The indices of the arms, (k,)."""
    probability: float
    """The probability of these arms in this order."""


def predict(
    policy: Policy, link: Link, state: Floats, dim: int, arms: Any, interval: float | None
) -> Floats | Prediction:
    """Return expected rewards, or a Prediction if an interval is given. `Bandit.predict` has the arguments.

    The interval of a score is that of a normal posterior. The link is increasing, so it maps the limits of the score to
    limits of the expected reward.
    """
    share = None if interval is None else check_float("interval", interval, above=0.0, at_most=LARGEST_INTERVAL)
    scores = score_means(policy, state, dim, arms)
    if share is None:
        return expected_rewards(link, scores)
    variances = policy.score_variances(state, dim, arms)
    if variances is None:
        raise InvalidInput(
            f"{policy.name} has no posterior, so its predictions have no interval. Leave interval out, or use optimist"
        )
    half_width = ndtri(0.5 + 0.5 * share) * np.sqrt(variances)
    return Prediction(*(expected_rewards(link, each) for each in (scores, scores - half_width, scores + half_width)))


def score_means(policy: Policy, state: Floats, dim: int, arms: Any, largest: float = math.inf) -> Floats:
    """Return the score of each arm under the estimate. Raises InvalidInput if the policy has none."""
    means = policy.score_means(state, dim, arms, largest)
    if means is None:
        raise InvalidInput(
            f"{policy.name} has no estimate, from which rewards are predicted and arms are chosen without exploration. "
            "Use optimist, for example"
        )
    return means


def expected_rewards(link: Link, scores: Floats) -> Floats:
    """Return the expected reward of each score, equal to `link.mean`. Many are computed by machine code."""
    if link.name == "identity":
        return scores.copy()
    if scores.size <= FEW_SCORES:
        return np.array([link.mean(score) for score in scores.tolist()])
    out, packed = np.empty(scores.size), np.array(link.packed)
    for part, fill in entry_point(means_recipe, own_link(link)).pieces(scores.size):
        fill(packed, scores[part], out[part])
    return out


def best_arms(scores: Floats, bounds: Ints) -> Ints:
    """Return the index of the largest score of each decision, of equal ones the first.

    The scores of decision i are those from bounds[i] to bounds[i + 1].
    """
    if np.isnan(scores).any():  # the model is not valid
        scores = np.where(np.isnan(scores), -np.inf, scores)
    starts, counts = bounds[:-1], np.diff(bounds)
    if len(counts) and (counts == counts[0]).all():
        return np.asarray(scores.reshape(len(counts), counts[0]).argmax(axis=1))
    is_best = scores == np.repeat(np.maximum.reduceat(scores, starts), counts) if len(counts) else np.empty(0, bool)
    best = np.flatnonzero(is_best)
    return np.asarray(best[np.searchsorted(best, starts)] - starts)


def estimated_probabilities(choose: Callable[[Generator], int], rng: Generator, count: int, draws: int) -> Floats:
    """Return the probability of each of `count` arms, from trial decisions by `choose(rng)`. None is 0."""
    probe, frequencies = _probe(rng), np.full(count, 1.0 / count)
    for _ in range(draws):
        frequencies[choose(probe)] += 1.0
    return frequencies / (draws + 1.0)


def estimated_ranking_probability(
    rank: Callable[[Generator, Ints], float], rng: Generator, order: Ints, count: int, draws: int
) -> float:
    """Return the probability of a ranking of `count` arms, from trial rankings that `rank(rng, trial)` writes."""
    probe, trial, same = _probe(rng), np.empty_like(order), 1.0 / orders(count, len(order))
    for _ in range(draws):
        rank(probe, trial)
        same += np.array_equal(trial, order)
    return float(same / (draws + 1.0))


def _probe(rng: Generator) -> Generator:
    """A generator for trial decisions. Another stream at each position of the generator of decisions."""
    return np.array([rng[KEY], FIRST_PROBE_STREAM + rng[COUNTER], 0], dtype=np.uint64)


def best_orders(scores: Floats, bounds: Ints, top: int) -> Ints:
    """Return the indices of the best `top` arms of each decision in order, (n, top); -1 if it has fewer arms.

    The first is that of `best_arms`.
    """
    if top == 1:
        return best_arms(scores, bounds)[:, np.newaxis]
    starts, counts = bounds[:-1], np.diff(bounds)
    order = np.lexsort((-scores, np.repeat(np.arange(len(counts)), counts)))  # stable: of equal ones the first
    positions = np.arange(top)
    found = order[np.minimum(starts[:, np.newaxis] + positions, len(order) - 1)] - starts[:, np.newaxis]
    return np.where(positions < counts[:, np.newaxis], found, -1)
