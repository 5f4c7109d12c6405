"""What a Bandit predicts: expected rewards with intervals, and probabilities of decisions without an exact form.

Probabilities are estimated from trial decisions on a random stream of their own, so that estimates change no decision.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.common.errors import InvalidInput, check_float
from glbandits.maths.line_order import orders
from glbandits.maths.links import Link
from glbandits.maths.philox import COUNTER, KEY
from glbandits.policies.contract import Policy

LARGEST_INTERVAL = 1.0 - 1e-9
FIRST_PROBE_STREAM = np.uint64(1)
"""The first random stream for estimates of probabilities."""
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
    moments = policy.score_posterior(state, dim, arms)
    if moments is None:
        raise InvalidInput(f"{policy.name} has no estimate from which to predict rewards. Use optimist, for example")
    scores, variances = moments
    if share is None:
        return _means(link, scores)
    if variances is None:
        raise InvalidInput(
            f"{policy.name} has no posterior, so its predictions have no interval. Leave interval out, or use optimist"
        )
    half_width = ndtri(0.5 + 0.5 * share) * np.sqrt(variances)
    return Prediction(*(_means(link, each) for each in (scores, scores - half_width, scores + half_width)))


def _means(link: Link, scores: Floats) -> Floats:
    return np.array([link.mean(score) for score in scores.tolist()])


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
