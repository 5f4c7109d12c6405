"""RS-GLinCB: a policy that changes rarely (Sawarni, Das, Barman and Sinha, 2024)."""

import math
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from glbandits.errors import InvalidInput
from glbandits.maths.cholesky import inverse_norm, inverse_norm_of_row, log_determinant, update
from glbandits.maths.constrained import fit_in_ball
from glbandits.maths.links import LinkFunctions, find_link, slope_range
from glbandits.maths.observation_history import labelled, remember, rows_labelled
from glbandits.maths.vectors import copy_to, dot, dot_row
from glbandits.policy import AnyLink, Bounds, Grid, NonNegative, PolicyInfo, Positive, StateLayout, derived
from glbandits.policy_bases.confidence import Width
from glbandits.policy_bases.grids import EXPLORATIONS
from glbandits.records import Floats, Generator

LAYOUT = StateLayout()
theta_warm_of, theta_of = LAYOUT.vector("theta_warm"), LAYOUT.vector("theta")
"""The estimate from the warm-up set, and the one that is played."""
V_of, H_of, H_played_of = LAYOUT.factor("V"), LAYOUT.factor("H"), LAYOUT.factor("H_played")
"""The factors of the warm-up set's matrix, of the other rewards' matrix, and of that as it was at the last switch."""
history_at = LAYOUT.history(extra=1)
WARM_UP_SET, OTHERS = 0.0, 1.0
"""The labels of the history."""


class Constants(NamedTuple):
    """The numbers that the algorithm adds and compares with."""

    bonus: float
    elimination: float
    threshold: float
    precision: float


class RsGlincb(Width):
    """What the algorithm compares with and adds."""

    name: ClassVar[str] = "rs-glincb"
    layout: ClassVar[StateLayout] = LAYOUT
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2",
        learn="d^2, and d log T fits of t d^2",
        memory="t d",
        guarantee="d sqrt(mu'* T)",
        use_when="the policy must change rarely: each switch is costly to deploy",
        page="rs-glincb",
    )

    link: AnyLink = "logistic"
    exploration: NonNegative | None = 2.0
    elimination: NonNegative = 2.0
    threshold: Positive = 1.0
    prior_precision: Positive = 1.0
    growth: Annotated[float, Bounds(above=1)] = 2.0
    bound: Annotated[float, Bounds(above=0, at_most=1e3)] = 5.0
    horizon: Annotated[int, Bounds(at_least=2)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.constants(1)

    def constants(self, dim: int) -> Constants:
        """The settings, or the paper's constants for rewards in [0, 1]."""
        if self.exploration is not None:
            return Constants(self.exploration, self.elimination, self.threshold, self.prior_precision)
        link = find_link(self.link)
        if self.horizon is None or link.highest_reward - link.lowest_reward > 1.0:
            raise InvalidInput(
                "exploration=None is the theory's width, which needs a horizon and a link for rewards in [0, 1]; "
                f"got horizon={self.horizon} and {link}"
            )
        log = dim * math.log(self.horizon / self.failure)
        least, _ = slope_range(link, self.bound)
        gamma, kappa = 25.0 * self.bound * math.sqrt(log), 1.0 / least
        return Constants(150.0 * math.sqrt(log), gamma * math.sqrt(kappa), 1.0 / (gamma * gamma * kappa), log)

    @derived
    def c(self, dim: int) -> float:
        """The scale of the bonus."""
        return self.constants(dim).bonus

    @derived
    def b(self, dim: int) -> float:
        """The scale of the interval that drops arms."""
        return self.constants(dim).elimination

    @derived
    def unknown(self, dim: int) -> float:
        """The squared norm from which on line 1 explores."""
        return self.constants(dim).threshold

    @derived
    def precision(self, dim: int) -> float:
        """V and H before the first reward, times I, and the ridge of the fits."""
        return self.constants(dim).precision

    @derived
    def log_growth(self, dim: int) -> float:
        """The growth of the logarithm of the determinant, for line 3."""
        return math.log(self.growth)

    def init(self, dim: int) -> Floats:
        """Nothing learned."""
        precision = self.precision(dim)
        return LAYOUT.allocate(dim, V=precision, H=precision, H_played=precision)

    @staticmethod
    def decide(state: Floats, settings: Any, arms: Floats, link: LinkFunctions) -> int:
        """Lines 1 and 2."""
        K, dim = arms.shape
        V, theta_warm, scratch, upper = V_of(state, dim), theta_warm_of(state, dim), np.empty(dim), np.empty(K)
        widest, largest, floor = 0, -np.inf, -np.inf
        for a in range(K):
            length, score = inverse_norm_of_row(V, arms, a, scratch), dot_row(arms, a, theta_warm)
            if length > largest:
                widest, largest = a, length
            upper[a] = score + settings.b * length
            floor = max(floor, score - settings.b * length)
        if largest**2 >= settings.unknown:
            return widest
        H, theta, best, best_score = H_played_of(state, dim), theta_of(state, dim), 0, -np.inf
        for a in range(K):
            if upper[a] >= floor:
                score = dot_row(arms, a, theta) + settings.c * inverse_norm_of_row(H, arms, a, scratch)
                if score > best_score:
                    best, best_score = a, score
        return best

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Add the reward to its set, and make the fits that are due."""
        dim = x.shape[0]
        to_warm_up = inverse_norm(V_of(state, dim), x, np.empty(dim)) ** 2 >= settings.unknown
        label = WARM_UP_SET if to_warm_up else OTHERS
        state = remember(state, history_at(dim), labelled(x, label), reward)
        H_now, H_then = H_of(state, dim), H_played_of(state, dim)
        if to_warm_up:
            update(V_of(state, dim), 1.0, x)
        else:
            update(H_now, link.slope(dot(x, theta_warm_of(state, dim))) / math.e, x)
        switch = log_determinant(H_now) - log_determinant(H_then) > settings.log_growth
        if to_warm_up or switch:
            theta = theta_warm_of(state, dim) if to_warm_up else theta_of(state, dim)
            rows, ridge = rows_labelled(state, history_at(dim), dim, label, label), settings.precision
            copy_to(theta, fit_in_ball(rows.features, rows.rewards, rows.counts, ridge, settings.bound, theta, link))
        if switch:
            for i in range(dim):
                copy_to(H_then[i], H_now[i])
        return state
