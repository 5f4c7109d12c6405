"""Predictions: the expected reward of each arm, and an interval of it from the policy's posterior."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, check_float
from glbandits.maths.links import Link
from glbandits.policies.contract import Policy

LARGEST_INTERVAL = 1.0 - 1e-9


class Prediction(NamedTuple):
    """Expected rewards of arms, and the limits of their intervals, each (K,)."""

    mean: Floats
    low: Floats
    high: Floats


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
