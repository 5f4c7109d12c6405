from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, EpsilonGreedy, InvalidInput, Optimist, Policy, SgdTs
from glbandits.lab import Prices, Rounds, SparseHashed, SparseRounds, Synthetic, WithPayoffs, compare, simulate
from glbandits.policies import LaplaceTs, RsGlincb, SupCbGlm

VALUES, COSTS = [1.0, 3.0, 0.0, 9.0], [0.0, 0.2, -0.5, 3.0]
DENSE = WithPayoffs(Synthetic(dim=3, arms=4), VALUES, COSTS)


@pytest.mark.parametrize(
    "policy", [Optimist(), LaplaceTs(), SgdTs(block_length=10), EpsilonGreedy()], ids=lambda policy: policy.name
)
def test_run_makes_the_choices_of_a_bandit_with_payoffs(policy: Policy) -> None:
    bandit, choices, cost = Bandit(policy, 3, seed=3), [], 0.0
    (chunk,) = DENSE.rounds(60, 3)
    for t, arms in enumerate(chunk.arms):
        arm = bandit.choose(arms, values=VALUES, costs=COSTS)
        bandit.learn(arms[arm], DENSE.noise.reward(chunk.expected[t, arm], chunk.noise[t]))
        choices.append(arm)
        payoffs = chunk.expected[t] * VALUES - COSTS
        cost += payoffs.max() - payoffs[arm]
    result = simulate(policy, DENSE, 60, [3], jobs=1, compiled=False)
    assert result.choices is not None
    assert result.choices[0].tolist() == choices
    assert result.final_regret[0] == pytest.approx(cost, rel=1e-12)


def test_sparse_run_makes_the_choices_of_a_sparse_bandit_with_payoffs() -> None:
    problem = WithPayoffs(SparseHashed(arms=4, nonzeros=6, names=200), VALUES, COSTS)
    bandit, choices = Bandit(Optimist(), problem.dim, seed=3, sparse=True), []
    (chunk,) = problem.rounds(40, 3)
    assert isinstance(chunk, SparseRounds)
    for t, start in enumerate(chunk.starts):
        arms = chunk.arms.rows(start, start + chunk.counts[t])
        arm = bandit.choose(arms, values=VALUES, costs=COSTS)
        bandit.learn(arms.row(arm), problem.noise.reward(chunk.expected[t, arm], chunk.noise[t]))
        choices.append(arm)
    result = simulate(Optimist(), problem, 40, [3], jobs=1, compiled=False)
    assert result.choices is not None
    assert result.choices[0].tolist() == choices


class Changing:
    """Values of the arms that change from round to round, and rounds with different numbers of arms."""

    problem, has_payoffs = Synthetic(dim=2, arms=5, fewest_arms=1), True
    dim, noise = 2, problem.noise

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        rng = np.random.default_rng(seed)
        for chunk in self.problem.rounds(horizon, seed):
            values = rng.exponential(size=chunk.expected.shape)
            yield replace(chunk, values=values, payoffs=values * chunk.expected)


def test_values_may_change_from_round_to_round() -> None:
    bandit, choices, problem = Bandit("optimist", 2, seed=5), [], Changing()
    (chunk,) = problem.rounds(50, 5)
    assert chunk.values is not None
    for t, count in enumerate(chunk.counts):
        arm = bandit.choose(chunk.arms[t, :count], values=chunk.values[t, :count])
        bandit.learn(chunk.arms[t, arm], problem.noise.reward(chunk.expected[t, arm], chunk.noise[t]))
        choices.append(arm)
    result = simulate("optimist", problem, 50, [5], jobs=1, compiled=False)
    assert result.choices is not None
    assert result.choices[0].tolist() == choices


@pytest.mark.system
@pytest.mark.usefixtures("compiled_now")
def test_compiled_run_with_payoffs_has_the_same_bits() -> None:
    for problem in (DENSE, WithPayoffs(SparseHashed(arms=4, nonzeros=6, names=200), VALUES)):
        plain, compiled = (simulate("optimist", problem, 100, 2, jobs=1, compiled=flag) for flag in (False, True))
        np.testing.assert_array_equal(plain.choices, compiled.choices)
        np.testing.assert_array_equal(plain.regret, compiled.regret)


@pytest.mark.parametrize("policy", [SupCbGlm(horizon=20), RsGlincb()], ids=lambda policy: policy.name)
def test_policies_without_scores_are_refused(policy: Policy) -> None:
    with pytest.raises(InvalidInput, match="no score for each arm, which payoffs need"):
        simulate(policy, DENSE, 20, 1)


@pytest.mark.parametrize("flag", [True, False])
def test_flag_that_differs_from_the_rounds_is_an_error(flag: bool) -> None:
    class Wrong:
        dim, noise, has_payoffs = 3, DENSE.noise, flag

        def rounds(self, horizon: int, seed: int) -> Any:
            return (Synthetic(dim=3, arms=4) if flag else DENSE).rounds(horizon, seed)

    with pytest.raises(InvalidInput, match=f"has_payoffs .*; got {flag}"):
        simulate("uniform", Wrong(), 10, 1, compiled=False)


def test_results_name_the_unit_of_regret() -> None:
    comparison = compare({"optimist": "optimist"}, Prices(), 10, 2, jobs=1)
    assert "regret in payoff units" in repr(comparison["optimist"])
    assert "regret in payoff units" in comparison._repr_html_()
    assert "regret in payoff units" in str(comparison.plot().to_dict())
