"""Decisions by payoff, and rankings, of every policy."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from glbandits import Bandit, InvalidInput, Optimist, Policy, Ranking
from glbandits.bandit.policy_trials import Subject, any_rounds
from glbandits.maths.links import find_link
from glbandits.policies import POLICIES
from tests.laws.test_every_policy import VARIANTS

WITHOUT_SCORES = ("rs-glincb", "supcb-glm", "supcb-glm in many stages")
SCORED = [name for name in VARIANTS if name not in WITHOUT_SCORES]
VALUES, COSTS = np.array([1.0, 2.0, 0.5, 3.0, 0.0]), np.array([0.0, 0.3, -0.2, 1.0, 0.1])
ARMS = np.random.default_rng(8).uniform(-0.6, 0.6, (5, 3))


def check_frequencies(counts: Counter[Any], probabilities: dict[Any, float]) -> None:
    """A chi-square test at level 1e-6, in which rare outcomes are one outcome."""
    n = counts.total()
    assert all(probabilities.get(outcome, 0.0) > 0.0 for outcome in counts)
    usual = {outcome: p for outcome, p in probabilities.items() if p * n >= 10.0}
    rare, other = 1.0 - sum(usual.values()), n - sum(counts[outcome] for outcome in usual)
    statistic = sum((counts[outcome] - n * p) ** 2 / (n * p) for outcome, p in usual.items())
    statistic += (other - n * rare) ** 2 / (n * rare) if rare * n >= 10.0 else 0.0
    assert rare > -1e-9
    assert other <= n * rare + 6.0 * max(n * rare, 0.0) ** 0.5 + 10.0
    assert statistic < chi2.isf(1e-6, max(len(usual), 1))


def all_rankings(bandit: Bandit, k: int, rounds: int, **payoffs: Any) -> tuple[Counter[Any], dict[Any, float]]:
    counts, stated = Counter[Any](), dict[Any, float]()
    for _ in range(rounds):
        ranking = bandit.rank(ARMS, k, **payoffs)
        counts[tuple(ranking.arms)] += 1
        stated[tuple(ranking.arms)] = ranking.probability
    return counts, stated


@pytest.mark.parametrize("name", SCORED)
def test_choices_by_payoff_have_the_stated_probabilities(name: str) -> None:
    bandit = Subject(VARIANTS[name], 3).learned()
    exact = bandit.exact_probabilities(ARMS, values=VALUES, costs=COSTS)
    if exact is None:
        assert bandit.exact_probabilities(ARMS) is None
        exact = bandit.probabilities(ARMS, values=VALUES, costs=COSTS, draws=3000)
        choices = np.array([bandit.choose(ARMS, values=VALUES, costs=COSTS) for _ in range(3000)])
        np.testing.assert_allclose(np.bincount(choices, minlength=5) / 3000, exact, atol=0.06)
        return
    counts = Counter(bandit.choose(ARMS, values=VALUES, costs=COSTS) for _ in range(1000))
    check_frequencies(counts, dict(enumerate(exact)))


@pytest.mark.parametrize("name", SCORED)
def test_rankings_have_the_stated_probabilities(name: str) -> None:
    bandit = Subject(VARIANTS[name], 3).learned()
    if bandit.exact_probabilities(ARMS) is None:
        ranking = bandit.rank(ARMS, 2, draws=300)
        assert len(set(ranking.arms)) == 2
        assert 0.0 < ranking.probability <= 1.0
        return
    check_frequencies(*all_rankings(bandit, 3, 800, values=VALUES, costs=COSTS))


@pytest.mark.parametrize("name", SCORED)
def test_numbers_of_any_size_can_be_ranked(name: str) -> None:
    policy = VARIANTS[name]
    bandit = Bandit(policy, 3, seed=1)
    bandit.warns_of_outliers = False
    rng = np.random.default_rng(5)
    with np.errstate(all="ignore"):
        for arms, reward in any_rounds(find_link(policy.link), 3, 30, seed=2):
            values, costs = 10.0 ** rng.uniform(-300, 50, 4), rng.choice([-1e50, 0.0, 1.0, 1e50], 4)
            arm = bandit.choose(arms, values=values, costs=costs)
            probabilities = bandit.exact_probabilities(arms, values=values, costs=costs)
            assert probabilities is None or abs(probabilities.sum() - 1.0) < 1e-6
            ranking = bandit.rank(arms, 4, values=values, costs=costs, draws=1)
            assert sorted(ranking.arms) == [0, 1, 2, 3]
            assert 0.0 < ranking.probability <= 1.0 + 1e-9
            bandit.learn(arms, reward, arm=arm)


@pytest.mark.parametrize("link", ["logistic", "identity", "log", "probit"])
def test_optimist_with_payoffs_is_exact_under_every_link(link: str) -> None:
    for state in (0, 2):
        rng, bandit = np.random.default_rng([1, state]), Bandit(Optimist(link=link, floor=0.05), dim=3, seed=state)
        for _ in range(6 + 8 * state):
            bandit.learn(rng.uniform(-1, 1, 3), float(rng.random() < 0.4))
        counts, stated = all_rankings(bandit, 2, 1000, values=VALUES, costs=COSTS)
        check_frequencies(counts, stated)
        assert sum(stated.values()) <= 1.0 + 1e-9
        first = np.zeros(5)
        for ranking, probability in stated.items():
            first[ranking[0]] += probability
        exact = bandit.probabilities(ARMS, values=VALUES, costs=COSTS)
        np.testing.assert_allclose(first, exact, atol=1.0 - sum(stated.values()) + 1e-9)
        assert len(stated) > 2


def test_payoffs_decide() -> None:
    bandit = Bandit(Optimist(), dim=2, seed=1)
    bandit.learn_batch(np.tile(np.eye(2), (100, 1)), np.tile([0.9, 0.3], 100).round())
    arms = np.eye(2)
    assert bandit.choose(arms) == 0
    assert bandit.choose(arms, values=[1.0, 1000.0]) == 1
    assert bandit.choose(arms, values=[1.0, 1.0], costs=[5.0, 0.0]) == 1
    ranking = bandit.rank(arms, 2, values=[1.0, 1000.0])
    assert isinstance(ranking, Ranking)
    assert ranking.arms.tolist() == [1, 0]


@pytest.mark.parametrize("name", WITHOUT_SCORES)
def test_policies_without_scores_refuse(name: str) -> None:
    bandit = Bandit(VARIANTS[name], 3, seed=1)
    for call in (bandit.choose, bandit.probabilities, bandit.exact_probabilities):
        with pytest.raises(InvalidInput, match="no score for each arm, which payoffs"):
            call(ARMS, values=VALUES)
    with pytest.raises(InvalidInput, match="rankings need"):
        bandit.rank(ARMS, 2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"values": VALUES[:4]}, "a number for each arm"),
        ({"values": [1.0, np.nan, 1.0, 1.0, 1.0]}, "finite numbers"),
        ({"values": 1.0}, "a number for each arm"),
        ({"values": -VALUES}, "at least 0"),
        ({"values": ["a"] * 5}, "plain numbers"),
        ({"values": None}, "costs need values"),
        ({"costs": [np.inf, 0.0, 0.0, 0.0, 0.0]}, "finite numbers"),
        ({"costs": COSTS[:, np.newaxis]}, "a number for each arm"),
    ],
)
def test_invalid_payoffs_change_nothing(changed: dict[str, Any], message: str) -> None:
    bandit = Subject(Optimist(), 3).learned()
    payoffs = {"values": VALUES, "costs": COSTS} | changed
    expected = [bandit.copy().choose(ARMS) for _ in range(3)]
    for call in (bandit.choose, bandit.probabilities, bandit.exact_probabilities):
        with pytest.raises(InvalidInput, match=message):
            call(ARMS, **payoffs)
    with pytest.raises(InvalidInput, match=message):
        bandit.rank(ARMS, 2, **payoffs)
    assert [bandit.copy().choose(ARMS) for _ in range(3)] == expected


@pytest.mark.parametrize("k", [0, 6, -1, 2.5, "two"])
def test_invalid_length_of_a_ranking_is_an_error(k: Any) -> None:
    bandit = Bandit(Optimist(), 3, seed=1)
    with pytest.raises(InvalidInput, match="k must"):
        bandit.rank(ARMS, k)


@pytest.mark.parametrize("name", ["uniform", "epsilon-greedy", "optimist", "laplace-ts"])
def test_sparse_forms_rank_as_dense_ones(name: str) -> None:
    policy: Policy = VARIANTS["epsilon-greedy online"] if name == "epsilon-greedy" else VARIANTS[name]
    if name == "optimist":
        policy = Optimist(covariance="diagonal")
    dense, sparse = (Subject(policy, 3, sparse=is_sparse).learned() for is_sparse in (False, True))
    import scipy.sparse as sp

    for _ in range(5):
        expected = dense.rank(ARMS, 3, values=VALUES, costs=COSTS, draws=1)
        ranking = sparse.rank(sp.csr_matrix(ARMS), 3, values=VALUES, costs=COSTS, draws=1)
        assert ranking.arms.tolist() == expected.arms.tolist()


def test_clicks_teach_the_arms_that_were_seen() -> None:
    bandit, expected = (Bandit(POLICIES["lin-ucb"](), 3, seed=1) for _ in range(2))
    bandit.learn_click(ARMS, [4, 1, 3, 0], 1)
    expected.learn_batch(ARMS[[4, 1]], [0.0, 1.0])
    bandit.learn_click(ARMS, [2, 3], None)
    expected.learn_batch(ARMS[[2, 3]], [0.0, 0.0])
    bandit.learn_ranking(ARMS, [0, 2], [0.5, 0.25])
    expected.learn_batch(ARMS[[0, 2]], [0.5, 0.25])
    assert bandit.state.tobytes() == expected.state.tobytes()


@pytest.mark.parametrize("shown", [[0, 0], [], [5], [-1], [2, -3], [0.5], "01", [[0, 1]], [np.nan], [True, False]])
def test_invalid_rankings_are_not_learned(shown: Any) -> None:
    bandit = Bandit(Optimist(), 3, seed=1)
    before = bandit.state
    with pytest.raises(InvalidInput, match="shown must"):
        bandit.learn_click(ARMS, shown, None)
    with pytest.raises(InvalidInput, match="position must"):
        bandit.learn_click(ARMS, [0, 1], 2)
    with pytest.raises(InvalidInput, match="rewards"):
        bandit.learn_ranking(ARMS, [0, 1], [1.0])
    np.testing.assert_array_equal(bandit.state, before)


@pytest.mark.slow
@pytest.mark.parametrize("link", ["logistic", "identity", "log"])
@pytest.mark.parametrize("state", range(10))
def test_many_draws_have_the_stated_probabilities(link: str, state: int) -> None:
    rng, bandit = np.random.default_rng([2, state]), Bandit(Optimist(link=link), dim=3, seed=state)
    for _ in range(int(rng.integers(2, 40))):
        bandit.learn(rng.uniform(-1, 1, 3), float(rng.random() < 0.4))
    values, costs = rng.uniform(0.5, 3.0, 5), rng.normal(0.0, 0.2, 5)
    choices = Counter(bandit.choose(ARMS, values=values, costs=costs) for _ in range(100_000))
    check_frequencies(choices, dict(enumerate(bandit.probabilities(ARMS, values=values, costs=costs))))
    check_frequencies(*all_rankings(bandit, 3, 100_000, values=values, costs=costs))
