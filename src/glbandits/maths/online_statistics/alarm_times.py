"""How many units a guardrail needs until it raises an alarm: a simulation of `GroupDifference`.

Units are drawn in steps of many, and predictions are those of a long log, so 1,000 loops take half a second.
"""

import math

import numpy as np
from scipy.special import roots_jacobi

from glbandits.common.arrays import Floats
from glbandits.maths.online_statistics.confidence_sequence import PRIOR_ROWS, limited_term
from glbandits.maths.online_statistics.group_difference import BLOCK, bet_grid

LOOPS, STEPS, LONGEST = 1000, 100, 20
"""Loops, steps in a typical time until the alarm, and the longest simulation as a multiple of that time."""
MOST_UNITS, ALARM = 1e12, math.log(1.0 / 0.05)


def value_distribution(mean: float, concentration: float) -> tuple[Floats, Floats]:
    """Values with the moments of a beta distribution of variance mean (1 - mean) / (1 + concentration), probabilities.

    With concentration 0, the values are 0 and 1.
    """
    if not concentration:
        return np.array([0.0, 1.0]), np.array([1.0 - mean, mean])
    if concentration > 500.0:  # so narrow that its shape does not matter
        deviation = math.sqrt(mean * (1.0 - mean) / (1.0 + concentration))
        return np.clip([mean - deviation, mean + deviation], 0.0, 1.0), np.array([0.5, 0.5])
    nodes, weights = roots_jacobi(5, (1.0 - mean) * concentration - 1.0, mean * concentration - 1.0)
    return (nodes + 1.0) / 2.0, weights / weights.sum()


def alarm_times(
    means: tuple[float, float], concentration: float, share: float, margin: float, rng: np.random.Generator
) -> Floats:
    """The sorted numbers of units at the alarms of `LOOPS` loops; infinite after the first 91 %, or for too many units.

    Args:
        means: those of treatment and control, between 0 and 1, further apart than `margin`. The direction is bad.
        concentration: that of the values, see `value_distribution`.
        share: the share of control.
        margin: the margin of the guardrail.
        rng: the source of random numbers.
    """
    sign = 1.0 if means[0] > means[1] else -1.0
    reach, predicted = np.array([1.0 / (1.0 - share), 1.0 / share]), (1.0 - share) * means[1] + share * means[0]
    groups = [value_distribution(mean, concentration) for mean in means]
    rows = [(group, weight, y) for group, weight in enumerate(reach * [1.0, -1.0]) for y in groups[group][0]]
    probabilities = np.append((1.0 - share) * groups[0][1], share * groups[1][1])

    def terms_of(limit: float) -> Floats:
        measure, both = np.array([1.0, -1.0]), np.full(2, predicted)
        return np.array([limited_term(measure, reach, *row, both, sign, limit) for row in rows])

    bets, log_shares, largest_loss = bet_grid(share)
    terms = terms_of(math.inf)
    limited = np.column_stack([terms_of(limit) for limit in largest_loss / bets - 2.0])
    excess, variance = float(terms @ probabilities) - margin, float(np.square(terms) @ probabilities)
    step = max(BLOCK, math.ceil(min(2.0 * variance * (ALARM + 1.0) / excess**2, MOST_UNITS) / STEPS))
    log_capital, sums, times, units = np.zeros((LOOPS, len(bets))), np.zeros(LOOPS), np.full(LOOPS, np.inf), 0
    while np.isinf(times).mean() > 0.09 and units < min(LONGEST * step * STEPS, MOST_UNITS):
        centre = np.clip(sums / (PRIOR_ROWS + units), -1.0, 1.0)
        counts = rng.multinomial(step, probabilities, size=LOOPS)
        factors = np.log1p(bets * (limited - centre[:, np.newaxis, np.newaxis]))
        log_capital += np.einsum("lt,ltb->lb", counts, factors) + bets * (step * (centre - margin))[:, np.newaxis]
        sums += counts @ terms
        units += step
        times[(np.logaddexp.reduce(log_shares + log_capital, axis=1) > ALARM) & np.isinf(times)] = units
    return np.sort(times)
