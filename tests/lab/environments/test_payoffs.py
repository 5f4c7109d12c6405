from typing import Any

import numpy as np
import pytest

from glbandits import InvalidInput
from glbandits.common.identity import identity_of
from glbandits.lab import ClassificationTable, Prices, SparseHashed, Synthetic, WithPayoffs
from tests.lab.environments.rounds import all_rounds


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"values": [1.0, -2.0, 1.0]}, "at least 0"),
        ({"values": ["high", 1.0, 1.0]}, "must be numbers"),
        ({"values": [1.0, 1.0, 1.0], "costs": None}, "costs finite"),
    ],
)
def test_invalid_values_and_costs_are_an_error(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        WithPayoffs(Synthetic(arms=3), **settings)


def test_values_for_another_number_of_arms_are_an_error() -> None:
    with pytest.raises(InvalidInput, match="3 numbers, one for each arm; got 2"):
        next(WithPayoffs(Synthetic(arms=3), [1.0, 2.0]).rounds(5, 1))


def test_problem_with_payoffs_cannot_get_others() -> None:
    with pytest.raises(InvalidInput, match="payoffs of its own"):
        WithPayoffs(Prices(), np.ones(10))


@pytest.mark.parametrize("problem", [Synthetic(arms=3, dim=2), SparseHashed(arms=3, nonzeros=6, names=200)])
def test_payoffs_change_no_reward(problem: Any) -> None:
    (plain,), (valued,) = problem.rounds(20, 4), WithPayoffs(problem, [1, 2, 5], costs=[0.5, 0, 3]).rounds(20, 4)
    np.testing.assert_array_equal(valued.expected, plain.expected)
    np.testing.assert_array_equal(valued.noise, plain.noise)
    np.testing.assert_allclose(valued.payoffs, plain.expected * [1, 2, 5] - [0.5, 0, 3], rtol=1e-15)
    np.testing.assert_allclose(valued.best(), valued.payoffs.max(axis=1), rtol=1e-15)


def test_identity_depends_on_the_data_and_the_payoffs() -> None:
    wine, iris = ClassificationTable.bundled("wine"), ClassificationTable.bundled("iris")
    problems = [WithPayoffs(wine, [1, 2, 3]), WithPayoffs(wine, [1, 2, 4]), WithPayoffs(iris, [1, 2, 3])]
    assert len({identity_of(problem) for problem in problems}) == 3
    assert identity_of(WithPayoffs(ClassificationTable.bundled("wine"), [1, 2, 3])) == identity_of(problems[0])


def test_shop_has_the_demand_of_the_tutorial() -> None:
    shop = all_rounds(Prices(), 3000, 2)
    kinds = shop.arms[:, 0, ::2].argmax(axis=1)
    assert shop.values is not None
    assert np.bincount(kinds, minlength=3).min() > 900
    assert [shop.values[0][shop.payoffs[kinds == kind][0].argmax()] for kind in range(3)] == [6.0, 10.0, 16.0]
    np.testing.assert_allclose(shop.expected[kinds == 1][0][3], 1 / (1 + np.exp(0.30 * 10 - 4)))
