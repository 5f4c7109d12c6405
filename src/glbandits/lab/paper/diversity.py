"""The diversity of contexts, on which the constants of SGD-TS's theory depend.

The proof for SGD-TS assumes that the greedy arms span the space, for every theta: lambda_f, the minimum over theta of
the least eigenvalue of E[xx'] for the arm that theta scores highest, must be well above 0. The search covers a finite
number of directions of theta, so the reported value is an upper bound of lambda_f.
"""

import math
from typing import NamedTuple

import numpy as np

from glbandits.common.arrays import Floats

DIRECTIONS, REFINEMENTS = 300, 60
"""Number of random directions of theta, and of steps of a random search from the worst of them."""


class Diversity(NamedTuple):
    """Eigenvalues of a sample of contexts that the theory's constants depend on."""

    sigma_0_squared: float
    """Least eigenvalue of the mean of xx' over all arms."""
    lambda_f: float
    """The minimum found, over theta, of the least eigenvalue for the arm that theta scores highest."""
    lambda_f_error: float
    """Its standard error: bootstrap over rounds, at the theta that was found."""


def estimate_diversity(sample: Floats, rng: np.random.Generator) -> Diversity:
    """Estimate sigma_0 and lambda_f from features (rounds, arms, dim) of norm at most 1."""
    second = np.einsum("nki,nkj->ij", sample, sample) / (sample.shape[0] * sample.shape[1])
    theta = worst_theta(sample, rng)
    bootstrap = [greedy_eigenvalues(sample[rng.integers(0, len(sample), len(sample))], theta)[0] for _ in range(50)]
    return Diversity(
        sigma_0_squared=float(np.linalg.eigvalsh(second)[0]),
        lambda_f=float(greedy_eigenvalues(sample, theta)[0]),
        lambda_f_error=float(np.std(bootstrap)),
    )


def worst_theta(sample: Floats, rng: np.random.Generator) -> Floats:
    """Search for the direction of theta whose greedy arms have the smallest least eigenvalue."""
    dim = sample.shape[2]
    best: Floats = np.zeros(dim)
    least = math.inf
    for trial in range(DIRECTIONS + REFINEMENTS):
        theta: Floats = np.asarray(rng.normal(size=dim))
        if trial >= DIRECTIONS:
            theta = best + 0.3 * theta / math.sqrt(dim)
        theta /= np.linalg.norm(theta)
        eigenvalue = float(greedy_eigenvalues(sample, theta)[0])
        if eigenvalue < least:
            best, least = theta, eigenvalue
    return best


def greedy_eigenvalues(sample: Floats, theta: Floats) -> Floats:
    """Return the ascending eigenvalues of the mean of xx' over the best arms under theta."""
    chosen = sample[np.arange(len(sample)), np.argmax(sample @ theta, axis=1)]
    eigenvalues: Floats = np.linalg.eigvalsh(chosen.T @ chosen / len(chosen)).astype(np.float64)
    return eigenvalues
