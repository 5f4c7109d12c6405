import numpy as np

from glbandits.common.arrays import Floats
from glbandits.lab.paper.diversity import estimate_diversity, greedy_eigenvalues, worst_theta

RNG = np.random.default_rng(0)
DIVERSE: Floats = RNG.uniform(-0.5, 0.5, (400, 10, 3))
FIXED: Floats = np.repeat(RNG.uniform(-0.5, 0.5, (1, 10, 3)), 400, axis=0)


def test_changing_contexts_are_diverse_and_fixed_ones_are_not() -> None:
    assert estimate_diversity(DIVERSE, np.random.default_rng(0)).lambda_f > 0.01
    assert estimate_diversity(FIXED, np.random.default_rng(0)).lambda_f < 1e-12  # one vector in every round


def test_worst_theta_has_the_smallest_eigenvalue_of_all_tried() -> None:
    # The third feature moves only in rounds where the first is small: theta along the first axis never sees it.
    sample = DIVERSE.copy()
    sample[:, :, 2] *= np.abs(sample[:, :, 0]) < 0.025
    theta = worst_theta(sample, np.random.default_rng(1))
    least = greedy_eigenvalues(sample, theta)[0]
    for other in np.random.default_rng(2).normal(size=(200, 3)):
        assert least <= greedy_eigenvalues(sample, other)[0] * 1.5
