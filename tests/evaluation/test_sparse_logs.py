from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, EpsilonGreedy, InvalidInput, LinUcb, Optimist, Policy, Uniform
from glbandits.evaluation import SklearnReward, SparseArms, evaluate, play_log, promotion, train
from glbandits.evaluation.promotion_result import Verdict
from glbandits.policies import LaplaceTs
from tests.evaluation.sparse_data import DIM, dense_and_sparse

pytestmark = pytest.mark.filterwarnings("ignore:the effective sample size of")
DENSE_TWINS = [
    pytest.param(Optimist(covariance="diagonal"), id="optimist"),
    pytest.param(LaplaceTs(), id="laplace-ts"),
    pytest.param(EpsilonGreedy(fit="online"), id="epsilon-greedy"),
    pytest.param(Uniform(), id="uniform"),
]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not compile: compiling a policy takes longer than all of these tests."""
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")


@pytest.mark.parametrize(("learn", "exact"), [("matched", False), ("all", True)])
@pytest.mark.parametrize("policy", DENSE_TWINS)
def test_sparse_learning_curve_equals_the_dense_one(policy: Policy, learn: Any, exact: bool) -> None:
    curves = [play_log(policy, log, seed=4, learn=learn, exact=exact) for log in dense_and_sparse(120)]
    assert curves[1].kept == curves[0].kept > 20
    np.testing.assert_allclose(curves[1].at_values, curves[0].at_values, rtol=1e-9)


def test_play_log_equals_a_sparse_bandit() -> None:
    _, log = dense_and_sparse(120)
    assert isinstance(log.arms, SparseArms)
    bandit, agreed = Bandit(Optimist(), DIM, seed=4, sparse=True), 0
    every, first = log.arms.every_arm(), 0
    for count, arm, reward in zip(log.arms.counts, log.chosen, log.rewards, strict=True):
        rows = every.rows(first, first + count)
        agreed += bandit.choose(rows) == arm
        bandit.learn(rows.row(arm), reward)
        first += count
    assert play_log(Optimist(), log, seed=4, learn="all").matched == agreed


@pytest.mark.parametrize("target", ["uniform", "bandit"])
def test_sparse_estimates_equal_dense_estimates(target: str) -> None:
    estimates = []
    for log, policy in zip(dense_and_sparse(150), (Optimist(covariance="diagonal"), Optimist()), strict=True):
        wanted = train(log[:70], policy) if target == "bandit" else target
        found = evaluate(log[70:], wanted, ("ips", "snips", "dr", "dm"))
        assert found.headline is not None
        assert found.headline.value.interval is not None
        estimates.append([*(each.value for each in found.estimates), *found.headline.value.interval])
    np.testing.assert_allclose(estimates[1][:2], estimates[0][:2], rtol=1e-9)
    # Both reward models are the mode of a posterior; the scales of their priors are found by other approximations.
    np.testing.assert_allclose(estimates[1], estimates[0], atol=0.02)


def test_sklearn_gets_sparse_rows_as_csr() -> None:
    from sklearn.linear_model import LogisticRegression

    model = SklearnReward(LogisticRegression())
    values = [[each.value for each in evaluate(log, "uniform", ("dr", "dm"), model=model).estimates]
              for log in dense_and_sparse(100)]  # fmt: skip
    np.testing.assert_allclose(values[1], values[0], rtol=1e-6)


def test_the_gate_reads_sparse_rows() -> None:
    _, log = dense_and_sparse(1100)
    said = promotion(log, {"uniform": "uniform"})
    assert said.verdict is Verdict.WAIT
    assert abs(said.gains["uniform"].value) < 0.1


def test_policies_without_a_sparse_form_are_rejected() -> None:
    _, log = dense_and_sparse(20)
    with pytest.raises(InvalidInput, match="lin-ucb has no sparse form"):
        play_log(LinUcb(), log, seed=1)
    with pytest.raises(InvalidInput, match=r"more than 4,096 features.*set sparse=False"):
        train(log, LinUcb())


def test_bandit_of_another_sparsity_is_rejected() -> None:
    dense, thin = dense_and_sparse(20)
    with pytest.raises(InvalidInput, match="the bandit is dense, but the arms of the log"):
        evaluate(thin, Bandit(Optimist(), DIM))
    with pytest.raises(InvalidInput, match="the bandit is sparse"):
        evaluate(dense, Bandit(Optimist(), DIM, sparse=True))


def test_operations_on_dense_arms_are_rejected() -> None:
    _, log = dense_and_sparse(20)
    with pytest.raises(InvalidInput, match="this operation needs dense arms"):
        evaluate(log, lambda block: block.features().sum(axis=2))
