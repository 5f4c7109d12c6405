"""The paper's theory on the paper's simulation: constants, bounds and measurements.

Three checks on T=1000, K=100, d=6, with the logistic link:

1. The warm-up tau of Lemma 2, alpha and the bound of Theorem 1, from estimated sigma_0 and lambda_f. Features and
   theta* have norm at most 1, so c1 and c3 are the least slopes of the link over scores up to 2 and 4. The universal
   constants are taken as 1. The search for lambda_f covers a finite number of directions, so it finds an upper bound
   of lambda_f, and thereby a lower bound of tau, up to the error of the sample.
2. How often the ball of radius 2 around the warm-up estimate contains theta*. SGD-TS projects onto this ball, so if
   theta* is outside, the iterates cannot converge to theta*.
3. How the regret of SGD-TS grows with T, with its default settings. The paper proves O~(sqrt T) for the settings of
   the theory.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.lab.environments import Synthetic
from glbandits.lab.experiments.progress import Progress, no_progress
from glbandits.lab.paper.diversity import Diversity, estimate_diversity
from glbandits.lab.paper.experiments import ARMS, DIM, HORIZON
from glbandits.lab.simulation import play_together, prepare, recorded_rounds, simulate
from glbandits.maths.links import find_link, slope_range
from glbandits.policies import SgdTs, Uniform
from glbandits.policies.algorithms.sgd_ts import FITTED_RIDGE, theta_hat_of
from glbandits.policies.shared.sgd_ts_theory import TheoryConstants

TITLE = "The theory of SGD-TS on the paper's simulation"
LINK, THETA_NORM = "logistic", 1.0
PAPER_SLOPE = 0.5
"""The paper's claim: regret grows like sqrt(T), up to logarithms."""
SAMPLE, QUICK_SAMPLE = 5000, 1500
"""Rounds from which sigma_0 and lambda_f are estimated."""
BLOCK_FACTORS, RIDGES, RADIUS = (1.0, 3.0, 10.0), (0.0, 1.0), 2.0
BALL_RUNS, QUICK_BALL_RUNS = 1000, 200
GROWTH_HORIZONS, QUICK_GROWTH_HORIZONS = (1000, 10_000, 100_000), (1000, 3000, 10_000)
GROWTH_SEEDS, QUICK_GROWTH_SEEDS = 80, 20
RESAMPLES = 2000
LARGEST_POWER = 18
"""Horizons up to 10^18 are tried; `TheoryConstants` takes no longer ones."""


def rounded(rounds: int) -> str:
    """Return a count with two significant digits.

    >>> rounded(138_704_637)
    '140,000,000'
    """
    return f"{float(f'{rounds:.2g}'):,.0f}"


@dataclass(frozen=True)
class BallShare:
    """How often the ball around the warm-up estimate contains theta*, for one setting."""

    block_factor: float
    """C in tau = floor(C max(log T, d))."""
    ridge: float
    """Penalty of the warm-up fit; 0 is the paper's."""
    block_length: int
    """tau: the number of random rounds that are fitted."""
    runs: int
    inside: int
    """Runs whose ball contains theta*."""
    without_estimate: int
    """Runs without a maximum likelihood estimate. SGD-TS then fits with ridge 1; the paper does not cover this case."""

    @property
    def share(self) -> float:
        """The share of all runs whose ball contains theta*."""
        return self.inside / self.runs


@dataclass(frozen=True)
class RegretGrowth:
    """The regret of one policy at several horizons."""

    policy: str
    horizons: tuple[int, ...]
    seeds: int
    mean: tuple[float, ...]
    """Mean final regret at each horizon."""
    standard_error: tuple[float, ...]
    slope: float
    """The exponent p of mean regret ~ T^p, by least squares on logarithms."""
    slope_low: float
    """The lower end of a 95 % interval: bootstrap over seeds."""
    slope_high: float


@dataclass(frozen=True)
class TheoryCheck:
    """Constants, guarantees and assumptions of the theory, and measurements."""

    horizon: int
    arms: int
    dim: int
    sigma_0_squared: float
    """Least eigenvalue of the mean of xx' over all arms."""
    lambda_f: float
    """The minimum found, over theta, of the least eigenvalue for the arm that theta scores highest."""
    lambda_f_error: float
    """Its standard error."""
    c1: float
    c3: float
    alpha: float
    tau: int
    """The warm-up of Lemma 2, in rounds."""
    tau_1: int
    """The part of Lemma 2's maximum that does not depend on lambda_f."""
    bound: float
    """Theorem 1's bound on the regret; T if the warm-up exceeds the horizon."""
    largest_regret_per_round: float
    """mu(1) - mu(-1): the largest possible difference of two mean rewards."""
    covered_horizon: int
    """The smallest power of ten T with tau < T."""
    covered_bound: float
    """Theorem 1's bound there."""
    informative_horizon: int | None
    """The smallest power of ten T for which the bound is below T times the largest regret per round.

    None if there is none up to 10^18.
    """
    balls: tuple[BallShare, ...]
    growth: tuple[RegretGrowth, ...]
    """SGD-TS, which gets each horizon as its setting, and uniform play."""
    quick: bool

    @property
    def largest_regret(self) -> float:
        """Upper bound of the regret of any policy over the horizon."""
        return self.horizon * self.largest_regret_per_round

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings as sentences: the warm-up, the bound, the ball and the growth."""
        paper_ball = next(ball for ball in self.balls if ball.block_factor == BLOCK_FACTORS[-1] and ball.ridge == 0.0)
        ridge_ball = next(ball for ball in self.balls if ball.block_factor == BLOCK_FACTORS[-1] and ball.ridge == 1.0)
        sgd_ts, uniform = self.growth
        never = f"for no power of ten up to 10^{LARGEST_POWER}"
        informative = never if self.informative_horizon is None else f"from T = {self.informative_horizon:,} on"
        covered, covered_regret = self.covered_horizon, self.covered_horizon * self.largest_regret_per_round
        return (
            f"The warm-up of Lemma 2 takes about {rounded(self.tau)} rounds for T = {self.horizon:,} "
            f"({rounded(self.tau_1)} even without its part for lambda_f = {self.lambda_f:.2g}); the smallest power of "
            f"ten above its own warm-up is T = {covered:,}.",
            f"Theorem 1 bounds the regret by {self.bound:,.0f} for T = {self.horizon:,}, where no policy loses more "
            f"than {self.largest_regret:,.0f}, and by {self.covered_bound:.1e} for T = {covered:,}, where no policy "
            f"loses more than {covered_regret:.1e}; the bound is below the largest possible regret {informative}.",
            f"With blocks of {paper_ball.block_length} rounds, the ball of radius {RADIUS:g} around the warm-up "
            f"estimate contains theta* in {paper_ball.share:.0%} of {paper_ball.runs:,} runs, with ridge 1 in "
            f"{ridge_ball.share:.0%}.",
            f"The regret of SGD-TS grows like T^{sgd_ts.slope:.2f} (95 % interval {sgd_ts.slope_low:.2f} to "
            f"{sgd_ts.slope_high:.2f}) from T = {sgd_ts.horizons[0]:,} to {sgd_ts.horizons[-1]:,}, that of uniform "
            f"play like T^{uniform.slope:.2f}; the paper claims T^{PAPER_SLOPE:g} up to logarithms.",
        )


def check_theory(*, quick: bool = False, jobs: int = -1, progress: Progress = no_progress) -> TheoryCheck:
    """Compute the constants and run the measurements.

    Args:
        quick: fewer seeds and shorter horizons: about 4 s instead of a minute on one core, without compilation.
        jobs: number of threads, -1 for one per core. Each runs one seed.
        progress: receives the number of rounds played, and the total.
    """
    problem, link = Synthetic(dim=DIM, arms=ARMS, link=LINK), find_link(LINK)
    horizons, seeds = (QUICK_GROWTH_HORIZONS, QUICK_GROWTH_SEEDS) if quick else (GROWTH_HORIZONS, GROWTH_SEEDS)
    runs = QUICK_BALL_RUNS if quick else BALL_RUNS
    policies = {
        (factor, ridge): SgdTs(link=LINK, horizon=HORIZON, block_factor=factor, ridge=ridge, radius=RADIUS)
        for factor in BLOCK_FACTORS
        for ridge in RIDGES
    }
    total = float(runs * sum(policy.tau(DIM) for policy in policies.values()) + seeds * sum(horizons))
    done = 0.0

    def report(rounds: float) -> None:
        nonlocal done
        done += rounds
        progress("checking the theory", done, total)

    report(0.0)
    prepare([SgdTs(link=LINK), Uniform(link=LINK)], problem)
    diversity = estimate_diversity(_sample(problem, QUICK_SAMPLE if quick else SAMPLE), np.random.default_rng(0))
    balls = []
    for policy in policies.values():
        balls.append(ball_share(policy, problem, range(1, runs + 1)))
        report(float(runs * policy.tau(DIM)))
    growth = _growth(problem, horizons, range(1, seeds + 1), jobs, report)
    constants = _constants(diversity, HORIZON)
    largest_regret = link.mean(THETA_NORM) - link.mean(-THETA_NORM)
    covered = _first_power(lambda T: _constants(diversity, T).block_length(DIM) < T)
    assert covered is not None  # tau is below 10^18 unless lambda_f is below 1e-7
    return TheoryCheck(
        horizon=HORIZON,
        arms=ARMS,
        dim=DIM,
        sigma_0_squared=diversity.sigma_0_squared,
        lambda_f=diversity.lambda_f,
        lambda_f_error=diversity.lambda_f_error,
        c1=constants.c1,
        c3=constants.c3,
        alpha=constants.alpha(DIM),
        tau=constants.block_length(DIM),
        tau_1=replace(constants, lambda_f=1.0).block_length(DIM),
        bound=_bound(constants),
        largest_regret_per_round=largest_regret,
        covered_horizon=covered,
        covered_bound=_bound(_constants(diversity, covered)),
        informative_horizon=_first_power(lambda T: _bound(_constants(diversity, T)) < T * largest_regret),
        balls=tuple(balls),
        growth=growth,
        quick=quick,
    )


def ball_share(policy: SgdTs, problem: Synthetic, seeds: Sequence[int]) -> BallShare:
    """Play the warm-up for each seed, and count the balls that contain theta*."""
    tau = policy.tau(problem.dim)
    inside = np.zeros(len(seeds), dtype=bool)
    has_estimate = np.zeros(len(seeds), dtype=bool)
    for i, seed in enumerate(seeds):
        (run,) = play_together([policy], problem, tau, seed, recorded_rounds(tau, 1), keep_state=True)
        assert run.state is not None
        distance = np.linalg.norm(theta_hat_of(run.state, problem.dim) - problem.theta_star(seed))
        inside[i], has_estimate[i] = distance <= policy.radius, run.state[FITTED_RIDGE] == policy.ridge
    return BallShare(
        block_factor=policy.block_factor,
        ridge=policy.ridge,
        block_length=tau,
        runs=len(seeds),
        inside=int(inside.sum()),
        without_estimate=int((~has_estimate).sum()),
    )


def growth_of(policy: str, horizons: Sequence[int], regret: Floats) -> RegretGrowth:
    """Fit the growth of final regret, (seeds, horizons), with a bootstrap interval over seeds."""
    seeds = len(regret)
    logs = np.log(np.asarray(horizons, dtype=np.float64))
    weights = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    resamples = np.random.default_rng(0).integers(0, seeds, (RESAMPLES, seeds))
    low, high = np.quantile(np.log(regret[resamples].mean(axis=1)) @ weights, [0.025, 0.975])
    return RegretGrowth(
        policy=policy,
        horizons=tuple(horizons),
        seeds=seeds,
        mean=tuple(regret.mean(axis=0).tolist()),
        standard_error=tuple((regret.std(axis=0, ddof=1) / math.sqrt(seeds)).tolist()),
        slope=float(np.log(regret.mean(axis=0)) @ weights),
        slope_low=float(low),
        slope_high=float(high),
    )


def _growth(
    problem: Synthetic, horizons: Sequence[int], seeds: Sequence[int], jobs: int, report: Callable[[float], None]
) -> tuple[RegretGrowth, ...]:
    """Play SGD-TS and uniform play on the same rounds."""
    names = (SgdTs.name, Uniform.name)
    regret = np.empty((len(names), len(seeds), len(horizons)))
    for h, horizon in enumerate(horizons):
        for i, policy in enumerate((SgdTs(link=LINK, horizon=horizon), Uniform(link=LINK))):
            runs = simulate(policy, problem, horizon, seeds, jobs=jobs, points=1, keep_choices=False)
            regret[i, :, h] = runs.final_regret
        report(float(horizon * len(seeds)))
    return tuple(growth_of(name, horizons, regret[i]) for i, name in enumerate(names))


def _sample(problem: Synthetic, rounds: int) -> Floats:
    return np.concatenate([chunk.arms for chunk in problem.rounds(rounds, seed=0)])


def _constants(diversity: Diversity, horizon: int) -> TheoryConstants:
    """Return the constants of the analysis, for rewards in [0, 1]."""
    (c1, _), (c3, _) = (slope_range(find_link(LINK), THETA_NORM + distance) for distance in (1.0, 3.0))
    sigma_0 = math.sqrt(diversity.sigma_0_squared)
    return TheoryConstants(noise=0.5, c1=c1, c3=c3, sigma_0=sigma_0, lambda_f=diversity.lambda_f, horizon=horizon)


def _bound(constants: TheoryConstants) -> float:
    return constants.regret_bound(DIM, ARMS, find_link(LINK).lipschitz)


def _first_power(condition: Callable[[int], bool]) -> int | None:
    """Return the smallest power of ten, 10 to 10^18, with the condition; None without one."""
    return next((10**k for k in range(1, LARGEST_POWER + 1) if condition(10**k)), None)
