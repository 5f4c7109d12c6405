"""Totals of decisions in loops with a control group, sticky units and fallback."""

from typing import Any

import pytest

from glbandits.service.domain.decision_totals import DecisionTotals, totals_of
from glbandits.service.domain.events import Group, SettledDecision
from tests.service.helpers import decision


def totals(*rewards: float, **changed: Any) -> DecisionTotals:
    """Totals of decisions that showed the baseline, by default with probability 0.5, and drew an unlikely action."""
    settings: dict[str, Any] = {"shown": 0, "probability": 0.5} | changed
    found = DecisionTotals()
    for number, value in enumerate(rewards):
        found.add(totals_of(SettledDecision(number, decision("e", **settings), ((5, value),), activated=False)))
    return found


@pytest.mark.parametrize("undrawn", [{"group": Group.CONTROL, "probability": 1.0}, {"repeats": "first"}])
def test_control_and_repeats_are_counted_but_not_compared(undrawn: dict[str, Any]) -> None:
    found, others = totals(1.0, 0.0), totals(1.0, 1.0, 1.0, **undrawn)
    assert (others.reward, others.baseline) == (None, None)
    before = found.reward, found.baseline, found.explored
    found.add(others)
    assert (found.reward, found.baseline, found.explored) == before
    assert (found.decisions, found.learned, found.compared, found.actions["a"]) == (5, 5, 2, 5)


def test_fallback_counts_as_the_baseline() -> None:
    found = totals(1.0, 0.0, fallback=True, probability=1.0)
    assert found.reward == found.baseline
    assert found.compared == 2
