"""Checks that the doubly robust estimate agrees with ips and with its own anytime-valid interval.

A row adds v + w (r - q) to dr and w r to ips (letters as in `point_estimators`). The difference v - w q has mean 0 if
the propensities are right and the context does not depend on the decision, because E[w q] is then v. A context column
that is known only after the decision, such as the status of an order, breaks this: q depends on the reward, and dr is
wrong with a small standard error.
"""

import math

from glbandits.evaluation.estimators.grouped_moments import Moments
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate, Headline
from glbandits.evaluation.estimators.support import FEW, Support

LIMIT = 4.0
"""Standard errors of the difference of dr and ips above which `agreement_notes` warns.

In simulations of correct logs this warned in at most 1 of 1,000 evaluations with an effective sample size of 100, and
less often with more rows (1 of 16,000 for normal errors)."""


def agreement_notes(difference: Moments, headline: Headline, support: Support) -> list[str]:
    """Warnings for the reader of an evaluation; none if the estimates agree, or if the log is too small to tell.

    Args:
        difference: of the terms v - w q.
        headline: the doubly robust estimate.
        support: of the same target.
    """
    if support.rows < FEW or support.effective_sample_size < FEW:
        return []
    notes = []
    mean = float(difference.mean[0])
    error = difference.standard_error(difference.mean**0)
    if abs(mean) > LIMIT * error:
        notes.append(
            f"dr is {abs(mean):.5f} {'higher' if mean > 0.0 else 'lower'} than ips, {abs(mean) / error:.1f} standard "
            "errors of their difference, so at least one of them is wrong. The usual cause is a context column that "
            "is known only after the decision, such as a status: leave it out. Wrong propensities are another cause"
        )
    outside = [name for name, estimate in (("value", headline.value), ("gain", headline.gain)) if _is_outside(estimate)]
    if outside:
        notes.append(
            f"the {' and the '.join(outside)} of dr {'lies' if len(outside) == 1 else 'lie'} outside the interval for "
            "every n, which does not use the same reward model: do not trust dr here"
        )
    return notes


def _is_outside(estimate: DoublyRobustEstimate) -> bool:
    if isinstance(estimate.anytime, str) or math.isnan(estimate.value):
        return False
    return not estimate.anytime.low <= estimate.value <= estimate.anytime.high
