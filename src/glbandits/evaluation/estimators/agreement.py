"""Checks that the doubly robust estimate agrees with ips and with its own anytime-valid interval.

A row adds v + w (r - q) to dr and w r to ips (letters as in `point_estimators`). The difference v - w q has mean 0 if
the propensities are right and the context does not depend on the decision, because E[w q] is then v. A context column
that is known only after the decision, such as the status of an order, breaks this: q depends on the reward, and dr is
wrong with a small standard error.

Both estimates also differ if the mean weight is not 1, which `Support.warnings` reports. So the difference is corrected
for the mean weight: by beta (mean weight - 1), where beta is the slope of the regression of v - w q on w.
"""

import math

import numpy as np

from glbandits.evaluation.estimators.grouped_moments import Moments
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate, Headline
from glbandits.evaluation.estimators.support import Support

LIMIT = 4.0
"""The number of standard errors of the corrected difference above which `agreement_notes` warns.

For normal errors a correct log exceeds it in 1 of 16,000 evaluations. None of 13,671 simulated logs that pass the
other two conditions, with weights of up to 50, exceeded it."""
FEWEST_ROWS = 100
"""The smallest effective sample size, and number of rows, for a warning."""
LARGEST_SHARE = 0.02
"""The largest share of one row in the sum of all squared weights, for a warning: beyond it errors are not normal."""


def agreement_notes(differences: Moments, headline: Headline, support: Support) -> list[str]:
    """Warnings for the reader of an evaluation; none if the estimates agree, or if the log is too small to tell.

    Args:
        differences: of the terms (v - w q, w).
        headline: the doubly robust estimate.
        support: of the same target.
    """
    sum_of_squares = (support.rows * support.mean_weight) ** 2 / max(support.effective_sample_size, 1.0)
    if (
        min(support.rows, support.effective_sample_size) < FEWEST_ROWS
        or support.largest_weight**2 > LARGEST_SHARE * sum_of_squares
    ):
        return []
    notes = []
    difference, error = _corrected_difference(differences)
    if abs(difference) > LIMIT * error:
        direction = "higher" if difference > 0.0 else "lower"
        notes.append(
            f"dr is {abs(difference):.5f} {direction} than ips with the same mean weight, which is more than {LIMIT:g} "
            f"standard errors of their difference ({error:.5f}): dr is wrong. The usual cause is a context column that "
            "is known only after the decision, such as a status; leave it out. Wrong propensities are another cause"
        )
    outside = [name for name, estimate in (("value", headline.value), ("gain", headline.gain)) if _is_outside(estimate)]
    if outside:
        notes.append(
            f"the {' and the '.join(outside)} of dr {'lies' if len(outside) == 1 else 'lie'} outside the interval for "
            "every n, which comes from another estimate than dr: trust neither before the cause is known"
        )
    return notes


def _corrected_difference(differences: Moments) -> tuple[float, float]:
    """The mean of v - w q, corrected for the mean weight, and its standard error."""
    mean, covariance = differences.mean, differences.covariance
    slope = covariance[0, 1] / covariance[1, 1] if covariance[1, 1] > 0.0 else 0.0
    return float(mean[0] - slope * (mean[1] - 1.0)), differences.standard_error(np.array([1.0, -slope]))


def _is_outside(estimate: DoublyRobustEstimate) -> bool:
    if isinstance(estimate.anytime, str) or math.isnan(estimate.value):
        return False
    return not estimate.anytime.low <= estimate.value <= estimate.anytime.high
