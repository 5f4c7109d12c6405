"""The theory of SGD-TS: the inputs of Algorithm 1, and the regret bound of Theorem 1."""

import math
from dataclasses import dataclass
from typing import Any

from glbandits.common.arrays import set_validated
from glbandits.common.errors import InvalidInput, check_float, check_int
from glbandits.compilation.numba_support import jittable


@jittable
def estimate_width_squared(j: float, tau: float, dim: int, log_T: float) -> float:
    """The square of g1 in units of R/c1 (equation 6). g1 bounds the error of the MLE."""
    return dim / 2.0 * math.log(1.0 + 2.0 * j * tau / dim) + 2.0 * log_T


@jittable
def path_width_squared(j: float) -> float:
    """The square of g2 in units of tau/alpha (equation 7). g2 bounds |theta_bar - MLE|."""
    return 1.0 + math.log(j)


@dataclass(frozen=True, kw_only=True)
class TheoryConstants:
    """The constants of the analysis, for a problem with features of norm at most 1.

    The settings that follow from them are worst-case values for study, not for use. In the paper's own simulation a
    block would have about 140 million rounds (270,000 even without the term for lambda_f), with a horizon of 1000.

    Args:
        noise: R, the sub-Gaussian parameter of the rewards (1/2 for rewards in [0, 1]).
        c1: the smallest slope of the link over scores x'theta with ||theta - theta*|| <= 1.
        c3: the smallest slope of the link over scores x'theta with ||theta - theta*|| <= 3.
        sigma_0: its square is a lower bound of the smallest eigenvalue of E[(1/K) sum_a x_a x_a'].
        lambda_f: the minimum over all theta of the smallest eigenvalue of E[xx'], where x is the arm with the largest
            x'theta.
        horizon: T.
        universal_1: C1 of Lemma 2. The paper does not state C1 and C2; 1 is a placeholder of the right order.
        universal_2: C2 of Lemma 2.
    """

    noise: float
    c1: float
    c3: float
    sigma_0: float
    lambda_f: float
    horizon: int
    universal_1: float = 1.0
    universal_2: float = 1.0

    def __post_init__(self) -> None:
        for name in ("noise", "c1", "c3", "sigma_0", "lambda_f", "universal_1", "universal_2"):
            set_validated(self, **{name: check_float(name, getattr(self, name), above=0)})
        # The proof divides by 1/16.5 - 1/T^2.
        set_validated(self, horizon=check_int("horizon", self.horizon, at_least=5))
        if self.c3 > self.c1:
            raise InvalidInput(
                f"c3 must be at most c1, because it is the smallest slope over more scores; got {self.c3} > {self.c1}"
            )

    def alpha(self, dim: int) -> float:
        """The required strong convexity of a block's loss (Theorem 1)."""
        return max(self.c3, dim, math.log(self.horizon)) / self.lambda_f

    def block_length(self, dim: int) -> int:
        """The block length tau of Lemma 2."""
        log_T, sigma_squared = math.log(self.horizon), self.sigma_0**2

        def spread(logs: float, eigenvalue: float) -> float:
            return ((self.universal_1 * math.sqrt(dim) + self.universal_2 * math.sqrt(logs)) / eigenvalue) ** 2

        tau_1 = spread(2 * log_T, sigma_squared) + 32 * self.noise**2 * (dim + 2 * log_T) / (self.c1**2 * sigma_squared)
        tau_2 = spread(3 * log_T, self.lambda_f) + 2 * self.alpha(dim) / (self.c3 * self.lambda_f)
        return math.ceil(max(tau_1, tau_2))

    def g1(self, block: int, dim: int) -> float:
        """The width of the MLE after this number of blocks (equation 6)."""
        tau, log_T = self.block_length(dim), math.log(self.horizon)
        return self.noise / self.c1 * math.sqrt(estimate_width_squared(block, tau, dim, log_T))

    def g2(self, block: int, dim: int) -> float:
        """The bound on |theta_bar - MLE| after this number of blocks (equation 7)."""
        return self.block_length(dim) / self.alpha(dim) * math.sqrt(path_width_squared(block))

    def variance(self, block: int, dim: int) -> float:
        """The diagonal entry of A_j for j = block (equation 5)."""
        mle = 2 * self.c3 * self.g1(block, dim) ** 2 / (self.alpha(dim) * block)
        return mle + 2 * self.g2(block, dim) ** 2 / block

    def mle_variance(self, dim: int) -> float:
        """The factor of `estimate_width_squared` in j A_j."""
        return 2 * self.c3 * (self.noise / self.c1) ** 2 / self.alpha(dim)

    def gap_variance(self, dim: int) -> float:
        """The factor of `path_width_squared` in j A_j."""
        return 2 * (self.block_length(dim) / self.alpha(dim)) ** 2

    def regret_bound(self, dim: int, arms: int, lipschitz: float) -> float:
        """The bound of Theorem 1 on the expected regret over T rounds, for rewards in [0, 1].

        The bound holds under the paper's assumptions and with the right universal constants. If the horizon is shorter
        than a block, the bound is T.

        >>> constants = TheoryConstants(noise=0.5, c1=0.2, c3=0.1, sigma_0=0.4, lambda_f=0.1, horizon=10**9)
        >>> f"{constants.regret_bound(dim=6, arms=100, lipschitz=0.25):.3g}"
        '2.43e+12'
        """
        check_int("dim", dim, at_least=1)
        check_int("arms", arms, at_least=1)
        check_float("lipschitz", lipschitz, above=0)
        T, tau, alpha = self.horizon, self.block_length(dim), self.alpha(dim)
        if tau > T:
            return float(T)
        blocks = T // tau
        g1, g2 = self.g1(blocks, dim), self.g2(blocks, dim)
        u = math.sqrt(2 * math.log(arms * tau * T**2))
        p = 1 + 2 / (1 / (4 * math.sqrt(math.pi * math.e)) - 1 / T**2)
        means = 2 * math.sqrt(self.c3 / alpha) * g1 + 2 * g2
        draws = u * math.sqrt(2 * self.c3 * g1**2 / alpha + 2 * g2**2) * math.sqrt(1 + math.log(blocks))
        return tau + 7 / T + lipschitz * p * math.sqrt(tau * T) * (means + draws)


@jittable
def variance(settings: Any, j: float, dim: int) -> float:
    """The diagonal entry of A_j: that of Section 6, or of equations 5 to 7 with `SgdTs(theory=...)`."""
    mle = settings.mle_variance * estimate_width_squared(j, settings.tau, dim, settings.log_T)
    gap = settings.gap_variance * path_width_squared(j)
    return float((settings.plain_variance + mle + gap) / j)
