"""The reward model: its exact fit, low click rates, and constant memory."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from glbandits.common.arrays import Floats
from glbandits.evaluation import FixedArms, LoggedData, evaluate
from glbandits.evaluation.models.glm_models import EXACT_ROWS, DenseGlm, set_mode
from glbandits.evaluation.models.reward_models import SequentialGlm
from glbandits.maths.links import find_link
from glbandits.policies import Optimist
from glbandits.policies.shared.posterior_state import prior_of
from tests.policies.shared.posterior_parts import learned, means_of, precision_of


def arm_log(rows: int, rates: list[float], seed: int) -> LoggedData:
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(rates), size=rows)
    return LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < np.array(rates)[chosen]).astype(float),
        propensities=np.full(rows, 1 / len(rates)),
        arms=FixedArms(np.eye(len(rates)), rows=rows),
        link="logistic",
    )


@pytest.mark.statistics
@pytest.mark.parametrize(("rate", "rows"), [(0.001, 2000), (0.004, 1000), (0.004, 5000), (0.01, 1000)])
def test_predictions_have_the_size_of_rare_rewards(rate: float, rows: int) -> None:
    """Predictions are compared with the clicks of the same 8 logs, with fixed seeds: they differed by 6 % at most.

    One pass alone predicts 1.3 to 4.5 times too much.
    """
    logs = [arm_log(rows, [rate] * 4, seed) for seed in range(8)]
    predicted = np.mean([evaluate(log, "uniform", "dm")["dm"].value for log in logs])
    assert predicted == pytest.approx(np.mean([log.rewards.mean() for log in logs]), rel=0.25)


def test_sequential_predictions_follow_rare_rewards() -> None:
    """Six standard errors of a rate of 0.4 % after 20,000 rows: a false alarm in 1e-8 of seeds."""
    log, model = arm_log(20_000, [0.004] * 4, seed=1), SequentialGlm(find_link("logistic"), 4)
    predicted = model.predict_next(log)
    assert predicted[-1] == pytest.approx(0.004, abs=6 * np.sqrt(0.004 / 5000))


@pytest.mark.statistics
def test_a_long_log_is_predicted_from_some_of_its_rows() -> None:
    """Six standard errors of a rate of 2 % after 205,000 rows. Later rows must not change a prediction."""
    log = arm_log(210_000, [0.02] * 4, seed=1)
    first, second = (SequentialGlm(find_link("logistic"), 4) for _ in range(2))
    predicted = first.predict_next(log)
    assert predicted[-1] == pytest.approx(0.02, abs=6 * np.sqrt(0.02 / 50_000))
    shorter = second.predict_next(log[:205_000])
    np.testing.assert_array_equal(shorter, predicted[:205_000])


def rows_of_a_world(rows: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    return X, (rng.random(rows) < expit(X @ [1.0, -0.5] - 5.0)).astype(float)


@pytest.mark.statistics
@pytest.mark.parametrize("sizes", [[150_000], [50_000] * 3, [40_000, 110_000]])
def test_long_logs_are_learned_online(sizes: list[int]) -> None:
    """0.1 is 3 standard errors of the worst known coefficient; the seed is fixed."""
    X, rewards = rows_of_a_world(sum(sizes), seed=2)
    assert len(X) > 2 * EXACT_ROWS
    learner, start = DenseGlm(find_link("logistic"), 2), 0
    for size in sizes:
        learner.learn(X[start : start + size], rewards[start : start + size])
        start += size
    learner.finish()
    np.testing.assert_allclose(learner.theta, [1.0, -0.5, -5.0], atol=0.1)


@pytest.mark.statistics
def test_more_features_than_a_block_are_learned() -> None:
    """With 200 features there is no exact fit, but the intercept starts at the mean of the first rewards."""
    X, rewards = rows_of_a_world(2000, seed=3)
    wide = np.hstack([X, np.zeros((2000, 198))])
    learner = DenseGlm(find_link("logistic"), 200)
    learner.learn(wide, rewards)
    learner.finish()
    assert expit(wide @ learner.theta[:-1] + learner.theta[-1]).mean() == pytest.approx(rewards.mean(), rel=0.3)


def test_no_rows_change_nothing() -> None:
    learner = DenseGlm(find_link("logistic"), 2)
    learner.learn(np.empty((0, 2)), np.empty(0))
    learner.finish()
    assert learner.theta.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("link", ["logistic", "log"])
def test_refit_is_the_mode_and_its_curvature(link: str) -> None:
    """A derivative-free minimum of the same penalised loss is the standard."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3)) * [1.0, 10.0, 0.1]
    rewards = (rng.random(400) < expit(X @ [0.5, 0.05, -5.0] - 4.0)).astype(float)
    state = learned(link, X, rewards)
    prior, design = np.append(prior_of(state, 3), 0.1), np.column_stack([X, np.ones(400)])

    def objective(theta: Floats) -> float:
        z = design @ theta
        loss = np.logaddexp(0.0, z) if link == "logistic" else np.exp(z)
        return float(np.sum(loss - rewards * z) + 0.5 * prior @ (theta - [0.0, 0.0, 0.0, -4.0]) ** 2)

    mode = minimize(objective, np.array([0.0, 0.0, 0.0, -4.0]), method="BFGS", options={"gtol": 1e-7}).x
    assert np.abs(means_of(state, 3) - mode).max() > 0.05  # one pass is not exact
    set_mode(state, X, rewards, (-4.0, 0.1), find_link(link))
    np.testing.assert_allclose(means_of(state, 3), mode, rtol=1e-4, atol=1e-5)
    means = expit(design @ mode) if link == "logistic" else np.exp(design @ mode)
    slopes = means * (1.0 - means) if link == "logistic" else means
    hessian = design.T @ (slopes[:, np.newaxis] * design) + np.diag(prior)
    np.testing.assert_allclose(precision_of(state, 3), hessian, rtol=1e-3, atol=1e-6)
    assert Optimist(link=link).is_valid_state(state, 3)
