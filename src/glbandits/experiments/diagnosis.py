"""Is the paper's diversity assumption plausible for these contexts, and what does its theory then promise?

SGD-TS is proven for contexts whose greedy arms span the space, whatever theta is greedy: lambda_f, the least over
theta of the least eigenvalue of E[xx'] for the arm that theta likes best, must be well above 0. It can only be looked
for among some directions of theta, so what is reported is an upper bound of it.
"""

import math
from dataclasses import dataclass

import numpy as np

from glbandits.environments.contexts import Contexts
from glbandits.errors import InvalidInput, number, whole
from glbandits.maths.links import Link, find_link, slope_range
from glbandits.policies import SgdTs, Uniform
from glbandits.policy_bases.sgd_ts_theory import TheoryConstants
from glbandits.records import Floats
from glbandits.simulation import simulate

DIRECTIONS, REFINEMENTS = 300, 60
"""Directions of theta that are tried, and steps of a random search from the worst of them."""
LITTLE = 0.01
"""A share of the largest eigenvalue below which a direction counts as not shown."""


@dataclass(frozen=True)
class Diagnosis:
    """What the theory asks of a problem, estimated from a sample of its contexts."""

    shape: tuple[int, int, int]
    """Rounds, arms and features of the sample."""
    largest_norm: float
    """Of the features as they came; the figures below are for features divided by it."""
    sigma_0_squared: float
    """Least eigenvalue of the mean of xx' over all arms."""
    lambda_f: float
    """The least found, over theta, of the least eigenvalue for the arm that theta likes best."""
    lambda_f_error: float
    """Its standard error from rounds drawn again from the sample."""
    largest_greedy: float
    """The largest eigenvalue for the same theta: what lambda_f is small or large against."""
    constants: TheoryConstants | None
    """None if lambda_f or sigma_0 is 0 as far as floats can tell, or the link's slope has no lower bound above 0."""
    block_length: int | None
    alpha: float | None
    bound: float | None
    """Theorem 1's bound for the horizon."""
    measured: float
    """Mean regret of SGD-TS with its default settings on rounds drawn from the sample."""
    measured_error: float
    uniform: float
    """Mean regret of uniform play there."""
    horizon: int

    @property
    def plausible(self) -> bool:
        """Whether greedy arms show every direction, by more than chance and by more than a trifle."""
        return self.lambda_f - 2 * self.lambda_f_error > LITTLE * self.largest_greedy

    @property
    def verdict(self) -> str:
        """In plain words."""
        share = f"{self.lambda_f / self.largest_greedy:.2g} of the largest" if self.largest_greedy > 0 else "of 0"
        if self.plausible:
            return (
                f"The diversity assumption is plausible: for every theta tried, the arms that it likes best show all "
                f"directions, the weakest with {share}."
            )
        return (
            "The diversity assumption is NOT plausible: for some theta the arms that it likes best hardly ever show "
            f"some direction (least eigenvalue {share}). Greedy play and SGD-TS may get stuck; choose a policy that "
            "explores."
        )


def diagnose(
    sample: Floats,
    *,
    link: str | Link = "logistic",
    theta_norm: float = 1.0,
    horizon: int = 1000,
    seeds: int = 20,
    seed: int = 0,
) -> Diagnosis:
    """Estimate the constants, compute the theory's settings and bound, and measure beside it.

    Args:
        sample: features, (rounds, arms, dim).
        link: mu.
        theta_norm: the length of theta* that is assumed; c1 and c3 are least slopes within 1 and 3 of it.
        horizon: T.
        seeds: runs that are measured.
        seed: of the search for the worst theta.
    """
    horizon, seeds = whole("horizon", horizon, at_least=5), whole("seeds", seeds, at_least=2)
    theta_norm = number("theta_norm", theta_norm, above=0)
    raw = Contexts(sample=sample)
    largest_norm = float(np.sqrt((raw.sample**2).sum(axis=2).max()))
    if largest_norm == 0.0:
        raise InvalidInput("contexts must not all be zero: there is nothing to learn from")
    scaled = raw.sample / largest_norm
    rng = np.random.default_rng(seed)
    second = np.einsum("nki,nkj->ij", scaled, scaled) / (scaled.shape[0] * scaled.shape[1])
    theta = worst_theta(scaled, rng)
    eigenvalues = greedy_eigenvalues(scaled, theta)
    again = [greedy_eigenvalues(scaled[rng.integers(0, len(scaled), len(scaled))], theta)[0] for _ in range(50)]
    sigma_0_squared, lambda_f = float(np.linalg.eigvalsh(second)[0]), float(eigenvalues[0])
    constants = _constants(find_link(link), theta_norm, sigma_0_squared, lambda_f, horizon)
    dim, arms = scaled.shape[2], scaled.shape[1]
    problem = Contexts(sample=scaled, theta_norm=theta_norm, link=link)
    played = simulate(SgdTs(link=link, horizon=horizon), problem, horizon, seeds, keep_choices=False)
    floor = simulate(Uniform(link=link), problem, horizon, seeds, keep_choices=False)
    lipschitz = find_link(link).lipschitz
    return Diagnosis(
        shape=(scaled.shape[0], arms, dim),
        largest_norm=largest_norm,
        sigma_0_squared=sigma_0_squared,
        lambda_f=lambda_f,
        lambda_f_error=float(np.std(again)),
        largest_greedy=float(eigenvalues[-1]),
        constants=constants,
        block_length=None if constants is None else constants.block_length(dim),
        alpha=None if constants is None else constants.alpha(dim),
        bound=None if constants is None or math.isinf(lipschitz) else constants.regret_bound(dim, arms, lipschitz),
        measured=float(played.mean[-1]),
        measured_error=float(played.standard_error[-1]),
        uniform=float(floor.mean[-1]),
        horizon=horizon,
    )


def worst_theta(sample: Floats, rng: np.random.Generator) -> Floats:
    """The direction, of many tried, whose greedy arms show some direction least."""
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
    """Eigenvalues of the mean of xx' for each round's best arm under theta, the least first."""
    chosen = sample[np.arange(len(sample)), np.argmax(sample @ theta, axis=1)]
    eigenvalues: Floats = np.linalg.eigvalsh(chosen.T @ chosen / len(chosen)).astype(np.float64)
    return eigenvalues


def _constants(
    link: Link, theta_norm: float, sigma_0_squared: float, lambda_f: float, horizon: int
) -> TheoryConstants | None:
    c1, _ = slope_range(link, theta_norm + 1.0)
    c3, _ = slope_range(link, theta_norm + 3.0)
    if min(sigma_0_squared, lambda_f) <= 1e-12 or c3 <= 0.0:
        return None
    return TheoryConstants(
        noise=0.5, c1=c1, c3=c3, sigma_0=math.sqrt(sigma_0_squared), lambda_f=lambda_f, horizon=horizon
    )
