"""The exact fit of Optimist's posterior, compared with a derivative-free minimum of the same penalised loss."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from glbandits.common.arrays import Floats
from glbandits.evaluation.models.glm_models import refit
from glbandits.maths.links import find_link
from glbandits.policies import Optimist
from glbandits.policies.shared.posterior_state import prior_of
from tests.policies.shared.posterior_parts import learned, means_of, precision_of


@pytest.mark.parametrize("link", ["logistic", "log"])
def test_refit_is_the_mode_and_its_curvature(link: str) -> None:
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
    refit(state, X, rewards, (-4.0, 0.1), find_link(link))
    np.testing.assert_allclose(means_of(state, 3), mode, rtol=1e-4, atol=1e-5)
    means = expit(design @ mode) if link == "logistic" else np.exp(design @ mode)
    slopes = means * (1.0 - means) if link == "logistic" else means
    hessian = design.T @ (slopes[:, np.newaxis] * design) + np.diag(prior)
    np.testing.assert_allclose(precision_of(state, 3), hessian, rtol=1e-3, atol=1e-6)
    assert Optimist(link=link).is_valid_state(state, 3)
