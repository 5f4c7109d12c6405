"""Diagnose whether the paper's diversity assumption holds, and what its theory guarantees.

The proof for SGD-TS assumes that the greedy arms span the space, for every theta: lambda_f, the minimum over theta of
the least eigenvalue of E[xx'] for the arm that theta scores highest, must be well above 0. The search covers a finite
number of directions of theta, so the reported value is an upper bound of lambda_f.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, check_float, check_int
from glbandits.lab.environments.sampled_contexts import SampledContexts
from glbandits.lab.experiments.context_files import real_numbers
from glbandits.lab.simulation import simulate
from glbandits.maths.links import Link, find_link, slope_range
from glbandits.policies import SgdTs, Uniform
from glbandits.policies.shared.sgd_ts_theory import TheoryConstants

DIRECTIONS, REFINEMENTS = 300, 60
"""Number of random directions of theta, and of steps of a random search from the worst of them."""
MIN_EIGENVALUE_SHARE = 0.001
"""A direction with a smaller share of the largest eigenvalue is not covered. The paper's simulation has 0.0085."""
ROUNDS_PER_FEATURE = 10
"""With fewer rounds for each feature, a small eigenvalue may be due to the sample alone."""
Guarantee = Literal[
    "sample too small",
    "assumption fails",
    "no constants",
    "warm-up exceeds horizon",
    "no bound",
    "vacuous bound",
    "informative bound",
]
"""What the theory guarantees for a run.

"Sample too small": the assumption can be neither confirmed nor rejected. "No constants": the slope of the link is 0
somewhere near theta*. "No bound": the slope has no upper bound. "Vacuous bound": not below the regret of uniform play.
"""


@dataclass(frozen=True)
class Diagnosis:
    """The constants and guarantees of the theory, estimated from a sample of contexts."""

    shape: tuple[int, int, int]
    """Rounds, arms and features of the sample."""
    largest_norm: float
    """Of the features in the sample. All numbers below are for features divided by it."""
    sigma_0_squared: float
    """Least eigenvalue of the mean of xx' over all arms."""
    lambda_f: float
    """The minimum found, over theta, of the least eigenvalue for the arm that theta scores highest."""
    lambda_f_error: float
    """Its standard error: bootstrap over rounds."""
    largest_greedy: float
    """The largest eigenvalue for the same theta, the scale to which lambda_f is compared."""
    constants: TheoryConstants | None
    """None if lambda_f, sigma_0 or the slope of the link near theta* is numerically 0."""
    block_length: int | None
    """Tau of Lemma 2: the rounds of the theory's warm-up and of each block after it."""
    practical_block_length: int
    """The block length of SGD-TS's default settings."""
    alpha: float | None
    bound: float | None
    """Theorem 1's bound for the horizon."""
    measured: float
    """Mean regret of SGD-TS with its default settings on rounds drawn from the sample."""
    measured_error: float
    uniform: float
    """Mean regret of uniform play on the same rounds."""
    horizon: int

    @property
    def plausible(self) -> bool:
        """Whether lambda_f exceeds 0 by two standard errors and is not negligible."""
        return self.lambda_f - 2 * self.lambda_f_error > MIN_EIGENVALUE_SHARE * self.largest_greedy

    @property
    def rounds_needed(self) -> int:
        """The number of rounds that a sample needs to reject the diversity assumption."""
        return ROUNDS_PER_FEATURE * self.shape[2]

    @property
    def guarantee(self) -> Guarantee:
        """What the theory guarantees for a run over the horizon."""
        if not self.plausible:
            return "sample too small" if self.shape[0] < self.rounds_needed else "assumption fails"
        if self.block_length is None:
            return "no constants"
        if self.block_length > self.horizon:
            return "warm-up exceeds horizon"
        if self.bound is None:
            return "no bound"
        return "vacuous bound" if self.bound >= self.uniform else "informative bound"

    @property
    def verdict(self) -> str:
        """The guarantee as one sentence."""
        guarantee, plausible = self.guarantee, "The diversity assumption is plausible"
        if guarantee == "sample too small":
            rounds, _, dim = self.shape
            return (
                f"The sample is too small to judge the diversity assumption: {rounds:,} rounds for {dim:,} features; "
                f"use at least {self.rounds_needed:,} rounds."
            )
        if guarantee == "assumption fails":
            share = self.lambda_f / self.largest_greedy if self.largest_greedy > 0 else 0.0
            return (
                "The diversity assumption is NOT plausible: for some theta the highest-scoring arms hardly vary in one "
                f"direction (its eigenvalue is {share:.2g} of the largest), so SGD-TS may never learn that direction; "
                "choose a policy that explores."
            )
        if guarantee == "no constants":
            return (
                f"{plausible}, but the theory's constants are not defined, because the slope of the link is 0 within "
                "distance 3 of theta*: there is no guarantee for this run."
            )
        if guarantee == "warm-up exceeds horizon":
            return (
                f"{plausible}, but the theory's warm-up of {self.block_length:,} rounds exceeds your horizon of "
                f"{self.horizon:,}: its guarantee does not cover this run."
            )
        warm_up = f"the theory's warm-up of {self.block_length:,} rounds fits your horizon of {self.horizon:,}"
        if guarantee == "no bound":
            return (
                f"{plausible} and {warm_up}, but Theorem 1 gives no bound, because the slope of the link has no upper "
                "bound."
            )
        bound, uniform = (
            f"Theorem 1's bound of {_format_regret(self.bound)}",
            f"the regret of uniform play, {_format_regret(self.uniform)}",
        )
        if guarantee == "vacuous bound":
            return (
                f"{plausible} and {warm_up}, but {bound} is not below {uniform}: the bound says nothing about this run."
            )
        return (
            f"{plausible}, {warm_up}, and {bound} is below {uniform}: the guarantee covers a run with the theory's "
            "settings."
        )

    @property
    def practical_note(self) -> str:
        """One sentence about the block length of the default settings."""
        return (
            f"The practical default settings of SGD-TS use blocks of {self.practical_block_length:,} rounds, for which "
            "the paper proves nothing."
        )


class Diversity(NamedTuple):
    """Eigenvalues of a sample of contexts that the theory's constants depend on."""

    sigma_0_squared: float
    """Least eigenvalue of the mean of xx' over all arms."""
    lambda_f: float
    """The minimum found, over theta, of the least eigenvalue for the arm that theta scores highest."""
    lambda_f_error: float
    """Its standard error: bootstrap over rounds, at the theta that was found."""
    largest_greedy: float
    """The largest eigenvalue for that theta."""


def diagnose(
    sample: Floats,
    *,
    link: str | Link = "logistic",
    theta_norm: float = 1.0,
    horizon: int = 1000,
    seeds: int = 20,
    seed: int = 0,
) -> Diagnosis:
    """Estimate the constants, compute the theory's settings and bound, and measure the regret.

    Args:
        sample: features, (rounds, arms, dim).
        link: mu.
        theta_norm: assumed norm of theta*. c1 and c3 are the least slopes within distance 1 and 3 of theta*.
        horizon: T.
        seeds: number of simulated runs.
        seed: of the search for the theta of least diversity.
    """
    horizon, seeds = check_int("horizon", horizon, at_least=5), check_int("seeds", seeds, at_least=2)
    theta_norm = check_float("theta_norm", theta_norm, above=0)
    raw = SampledContexts(sample=real_numbers("a sample of contexts", sample))
    scaled, largest_norm = scale_to_norm_1(raw.sample)
    diversity = estimate_diversity(scaled, np.random.default_rng(seed))
    constants = theory_constants(find_link(link), theta_norm, diversity, horizon)
    dim, arms = scaled.shape[2], scaled.shape[1]
    problem = SampledContexts(sample=scaled, theta_norm=theta_norm, link=link)
    policy = SgdTs(link=link, horizon=horizon)
    measured = simulate(policy, problem, horizon, seeds, keep_choices=False)
    uniform = simulate(Uniform(link=link), problem, horizon, seeds, keep_choices=False)
    lipschitz = find_link(link).lipschitz
    return Diagnosis(
        shape=(scaled.shape[0], arms, dim),
        largest_norm=largest_norm,
        **diversity._asdict(),
        constants=constants,
        block_length=None if constants is None else constants.block_length(dim),
        practical_block_length=policy.tau(dim),
        alpha=None if constants is None else constants.alpha(dim),
        bound=None if constants is None or math.isinf(lipschitz) else constants.regret_bound(dim, arms, lipschitz),
        measured=float(measured.mean[-1]),
        measured_error=float(measured.standard_error[-1]),
        uniform=float(uniform.mean[-1]),
        horizon=horizon,
    )


def scale_to_norm_1(sample: Floats) -> tuple[Floats, float]:
    """Divide features by the largest norm of an arm. Return them and the norm, possibly inf."""
    _, exponent = np.frexp(np.abs(sample).max())
    reduced = np.ldexp(sample, -exponent)  # at most 1, so that squares do not overflow
    norm = float(np.sqrt((reduced**2).sum(axis=2).max()))
    if norm == 0.0:
        raise InvalidInput("contexts must not all be zero")
    with np.errstate(over="ignore"):
        return reduced / norm, float(np.ldexp(norm, exponent))


def estimate_diversity(sample: Floats, rng: np.random.Generator) -> Diversity:
    """Estimate sigma_0 and lambda_f from features (rounds, arms, dim) of norm at most 1."""
    second = np.einsum("nki,nkj->ij", sample, sample) / (sample.shape[0] * sample.shape[1])
    theta = worst_theta(sample, rng)
    eigenvalues = greedy_eigenvalues(sample, theta)
    bootstrap = [greedy_eigenvalues(sample[rng.integers(0, len(sample), len(sample))], theta)[0] for _ in range(50)]
    return Diversity(
        sigma_0_squared=float(np.linalg.eigvalsh(second)[0]),
        lambda_f=float(eigenvalues[0]),
        lambda_f_error=float(np.std(bootstrap)),
        largest_greedy=float(eigenvalues[-1]),
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


def theory_constants(link: Link, theta_norm: float, diversity: Diversity, horizon: int) -> TheoryConstants | None:
    """Return the constants of the analysis for rewards in [0, 1].

    None if lambda_f, sigma_0 or the slope of the link near theta* is numerically 0.
    """
    try:
        (c1, _), (c3, _) = (slope_range(link, theta_norm + distance) for distance in (1.0, 3.0))
    except InvalidInput:  # a slope of 0, or an infinite one
        return None
    if min(diversity.sigma_0_squared, diversity.lambda_f) <= 1e-12:
        return None
    sigma_0, lambda_f = math.sqrt(diversity.sigma_0_squared), diversity.lambda_f
    return TheoryConstants(noise=0.5, c1=c1, c3=c3, sigma_0=sigma_0, lambda_f=lambda_f, horizon=horizon)


def _format_regret(regret: float | None) -> str:
    """Format a regret for a sentence.

    >>> _format_regret(12345.6), _format_regret(1.23456e12), _format_regret(0.5)
    ('12,346', '1.23e+12', '0.5')
    """
    assert regret is not None
    return f"{regret:,.0f}" if 100 <= regret < 1e7 else f"{regret:.3g}"
