from itertools import permutations
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput
from glbandits.lab import RankedClicks, Synthetic, Visit

THREE = Visit(
    arms=np.eye(4),
    probabilities=np.array([0.1, 0.6, 0.3, 0.5]),
    examination=np.array([1.0, 0.7, 0.4]),
    attracts=np.array([0.0, 1.0, 0.0, 1.0]),
    depth=2,
)


def test_cascade_stops_at_the_first_attractive_arm() -> None:
    assert THREE.click(np.array([2, 3, 1])) == 1
    assert THREE.click(np.array([1, 3, 0])) == 0
    assert THREE.click(np.array([2, 0, 1])) is None  # the attractive arm is below the depth


def test_rewards_of_positions_below_the_depth_are_zero() -> None:
    assert THREE.rewards(np.array([1, 3, 2])).tolist() == [1.0, 1.0, 0.0]
    assert THREE.rewards(np.array([2, 0, 1])).tolist() == [0.0, 0.0, 0.0]


def test_best_ranking_has_no_regret_and_all_others_have_some() -> None:
    assert THREE.best().tolist() == [1, 3, 2]
    assert THREE.regret(THREE.best()) == 0.0
    others = [np.array(order) for order in permutations(range(4), 3) if order != (1, 3, 2)]
    assert min(THREE.regret(order) for order in others) > 0.0


def test_clicks_have_the_stated_probability() -> None:
    problem = RankedClicks(Synthetic(dim=2, arms=5, fixed_arms=True), examination=(0.9, 0.6))
    visits, shown = list(problem.visits(4000, seed=3)), np.array([4, 2])
    clicks = [visit.click(shown) for visit in visits]
    assert np.mean([click is not None for click in clicks]) == pytest.approx(
        visits[0].click_probability(shown), abs=0.035
    )  # 4.5 standard errors
    assert np.mean([visit.rewards(shown) for visit in visits], axis=0) == pytest.approx(
        visits[0].probabilities[shown] * [0.9, 0.6], abs=0.035
    )


def test_same_seed_gives_the_same_visits() -> None:
    problem = RankedClicks(Synthetic(dim=2, arms=5))
    short, long = list(problem.visits(10, 7)), list(problem.visits(30, 7))
    for one, other in zip(short, long, strict=False):
        np.testing.assert_array_equal(one.attracts, other.attracts)
        np.testing.assert_array_equal(one.arms, other.arms)
        assert one.depth == other.depth


@pytest.mark.parametrize("examination", [(), (0.5, 0.6), (1.2, 0.4), (0.5, -0.1), (np.nan,), ("all",), 0.5, ((1.0,),)])
def test_invalid_examination_is_an_error(examination: Any) -> None:
    with pytest.raises(InvalidInput, match="examination must be probabilities"):
        RankedClicks(Synthetic(), examination)


def test_rankings_longer_than_the_arms_are_an_error() -> None:
    with pytest.raises(InvalidInput, match="needs as many arms; got 2"):
        next(RankedClicks(Synthetic(arms=2)).visits(5, 1))


def test_problems_without_probabilities_are_an_error() -> None:
    with pytest.raises(InvalidInput, match="expected rewards from 0 to 1"):
        next(RankedClicks(Synthetic(arms=5, link="identity")).visits(50, 1))


@pytest.mark.statistics
@pytest.mark.usefixtures("compiled_now")
@pytest.mark.parametrize("by_click", [True, False], ids=["learn_click", "learn_ranking"])
def test_bandit_learns_the_best_order(by_click: bool) -> None:
    """Regret of the last quarter is a small part of that of random rankings."""
    problem = RankedClicks(Synthetic(dim=4, arms=10, theta_norm=2.0), examination=(1.0, 0.9, 0.8))
    learned = random = 0.0
    for seed in range(3):
        bandit, rng = Bandit("optimist", problem.dim, seed=seed), np.random.default_rng(seed)
        for t, visit in enumerate(problem.visits(1200, seed)):
            shown = bandit.rank(visit.arms, 3).arms
            if by_click:
                bandit.learn_click(visit.arms, shown, visit.click(shown))
            else:
                bandit.learn_ranking(visit.arms, shown, visit.rewards(shown))
            if t >= 900:
                learned += visit.regret(shown)
                random += visit.regret(rng.permutation(10)[:3])
    assert learned < 0.15 * random
