"""Compare what a loop showed with another choice: the baseline, or a uniformly random action.

A comparison gives each action the measure h(a) = p(a) - b(a). p(a) is the logged probability, and b(a) that of the
other choice: 1 for the baseline action and 0 for the others, or 1 / K for each of K allowed actions. The difference of
a decision is the sum of h(a) mu(a), where mu(a) is the expected reward: what the loop earns in expectation, minus what
the other choice earns. The weight of an action is w(a) = h(a) / p(a). It is at most 1, and at least -`Contrast.reach`.

Actions with w(a) < 0 are less likely than in the other choice, and form one side; all others form the other side. Let
q- and q+ be any predictions of the rewards of the two sides that do not depend on the draw, and H the sum of the
positive h(a). All h(a) sum to 0, so the negative ones sum to -H. If A is shown and earns r, then

    X = H (q+ - q-) + w(A) (r - q(A)),   q(A) = q- if w(A) < 0, else q+,

has the expectation H (q+ - q-) + sum_a h(a) mu(a) - H q+ + H q- = sum_a h(a) mu(a), for any q. So two "arms" are enough
for `ConfidenceSequence`, whatever the number of actions: it clips q- by the reach of its side, and q+ by 1.
"""

import math
from typing import NamedTuple

from glbandits.service.domain.decision_totals import baseline_of
from glbandits.service.domain.events import Decision


class Contrast(NamedTuple):
    """The measure h(a) = p(a) - b(a) of a comparison in one decision, as far as the evidence needs it."""

    gain: float
    """The sum of the positive h(a), and of the negative ones with the opposite sign."""
    reach: float
    """The largest -h(a) / p(a). Infinite if an action that the other choice may show had probability 0."""
    weight: float
    """h(a) / p(a) of the shown action."""


def against_baseline(decision: Decision) -> Contrast:
    """Compare with the baseline."""
    baseline = baseline_of(decision)
    p = decision.probabilities[baseline]
    others = max(1.0 - p, 0.0)
    reach = others / p if p > 0.0 else math.inf
    return Contrast(others, reach, -reach if decision.shown == baseline else 1.0)


def against_uniform(decision: Decision) -> Contrast:
    """Compare with a uniformly random choice among the allowed actions."""
    allowed = [p for index, p in enumerate(decision.probabilities) if index not in decision.excluded]
    share, rarest = 1.0 / len(allowed), min(allowed)
    reach = max(share / rarest - 1.0, 0.0) if rarest > 0.0 else math.inf
    weight = 1.0 - share / decision.probabilities[decision.shown]
    return Contrast(sum(max(p - share, 0.0) for p in allowed), reach, weight)
