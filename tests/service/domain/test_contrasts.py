"""Contrasts: the term has the mean difference as its expectation, whatever the predictions are."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glbandits.service.domain.contrasts import Contrast, against_baseline, against_uniform
from glbandits.service.domain.events import Decision
from tests.service.helpers import decision

MODEL = (0.1, 0.0, 0.55, 0.05, 0.3)
EXCLUDED = (1,)


def drawn(shown: int, model: tuple[float, ...] = MODEL, **changed: Any) -> Decision:
    values: dict[str, Any] = {"actions": tuple("abcde"[: len(model)]), "excluded": EXCLUDED} | changed
    return decision("e", shown=shown, chosen=shown, probability=model[shown], probabilities=model, **values)


@pytest.mark.parametrize(
    ("against", "other"),
    [(against_baseline, [1.0, 0.0, 0.0, 0.0, 0.0]), (against_uniform, [0.25, 0.0, 0.25, 0.25, 0.25])],
)
def test_expectation_of_a_term_is_the_difference(against: Callable[[Decision], Contrast], other: list[float]) -> None:
    means, lower, upper = np.array([0.2, 0.9, 0.5, 0.7, 0.4]), 0.33, 0.81
    expectation = 0.0
    for shown in (0, 2, 3, 4):
        gain, reach, weight = against(drawn(shown))
        assert -reach <= weight <= 1.0
        predicted = lower if weight < 0.0 else upper
        expectation += MODEL[shown] * (gain * (upper - lower) + weight * (means[shown] - predicted))
    assert expectation == pytest.approx((np.array(MODEL) - other) @ means)


def test_reach_is_the_largest_negative_weight() -> None:
    assert against_uniform(drawn(3)) == pytest.approx((0.35, 4.0, -4.0))
    assert against_baseline(drawn(0)) == pytest.approx((0.9, 9.0, -9.0))


def test_an_action_that_is_never_shown_has_infinite_reach() -> None:
    assert against_uniform(drawn(0, excluded=())).reach == math.inf
    assert against_baseline(drawn(0, baseline=1)).reach == math.inf


def test_a_single_action_and_a_uniform_draw_say_nothing() -> None:
    assert against_uniform(drawn(0, (1.0,), excluded=())) == (0.0, 0.0, 0.0)
    assert against_uniform(drawn(1, (0.25,) * 4, excluded=())) == (0.0, 0.0, 0.0)
