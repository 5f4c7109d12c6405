"""Optimist: the default. One pass, full curvature, a random share of hope, and nothing to tune."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.numba_support import borrowed, jittable
from glbandits.policy import Card, Grid, settle
from glbandits.errors import InvalidInput, number, whole
from glbandits.policy_bases.self_scaling_posterior import (
    COUNT,
    WEIGHT,
    assumed_noise,
    belief_fits,
    belief_size,
    covariance_of,
    dispersion,
    first_belief,
    mean_of,
    observe,
    sketch_of,
)
from glbandits.maths.covariance import levels_and_widths, most_hopeful
from glbandits.maths.upper_envelope import half_normal_chances
from glbandits.maths.links import Link, LinkFunctions, find_link
from glbandits.maths.philox import any_index, uniform, uniform_pair
from glbandits.maths.sketch import levels_and_widths_sketched
from glbandits.maths.vectors import best_arm
from glbandits.records import Floats, Generator

EAGERNESS, LEAST_SHARE = 24.0, 1 / 16
"""After t rewards a decision is hopeful with chance EAGERNESS sqrt(d + 1) / t, but never less than LEAST_SHARE. The
others are greedy, and cost no more than scoring the arms."""
HOPE = 1.5
"""The scale of hope, in standard deviations of the score."""
WHOLE_UP_TO = 128
"""Features up to which the covariance is kept whole."""
RANK, LARGEST_RANK = 8, 64
"""Directions that are kept beyond that; and the most that may be asked for, because the time grows with the cube."""
LARGEST_STATE = 5e8

RANK_AT, FLOOR_AT, HALF_LIFE_AT, NOISE_AT = 0, 1, 2, 3


@dataclass(frozen=True, kw_only=True)
class Optimist:
    """Score arms by what is believed of them, and now and then by what may be hoped.

    1. With chance min(1, 24 sqrt(d + 1) / t), but at least 1/16, draw Z from N(0, 1), once for all arms, and play the
       arm with the largest x'theta + 1.5 |Z| sigma ||x|| in H^-1.
    2. Else play the arm with the largest x'theta.
    3. Move theta by the exact step of the reward, and add its curvature to H.

    An intercept, the units of the features and the size sigma of the noise are found on the way, so there is nothing to
    choose but the link. The chance of every arm is exact: each arm's score is a line in |Z|. A hopeful decision takes
    O(K d^2), a greedy one O(K d), learning O(d^2). With more than 128 features H is a diagonal and 8 directions, and
    all of it is O(d). docs/theory/optimist.md tells why.

    Args:
        link: mu, any link.
        half_life: rewards after which an observation counts half, for a world that changes; None forgets nothing.
            Forgetting takes O(d^3) every half_life / 8 rewards; a sketch does it in O(d).
        floor: play a random arm with this probability, so that no arm has less than floor/K.
        rank: how many directions of curvature are kept beside the diagonal; 0 keeps all. None decides by the dimension.

    >>> from glbandits import Bandit, Optimist
    >>> bandit = Bandit(Optimist(), dim=2, seed=1)
    >>> bandit.learn([1.0, 0.0], 0.0)
    >>> bandit.probabilities([[1.0, 0.0], [0.0, 1.0]])
    array([0., 1.])
    """

    name: ClassVar[str] = "optimist"
    keeps_history: ClassVar[bool] = False
    grid: ClassVar[Grid] = {}
    card: ClassVar[Card] = Card(
        choose="K d; K d^2 for a hopeful share (d > 128: K d)",
        learn="d^2 (d > 128: d)",
        memory="d^2 (d > 128: d)",
        guarantee="none known",
        use_when="the default: nothing to tune, exact chances",
        page="optimist",
    )

    link: str | Link = "logistic"
    half_life: float | None = None
    floor: float = 0.0
    rank: int | None = None

    def __post_init__(self) -> None:
        find_link(self.link)
        settle(self, floor=number("floor", self.floor, at_least=0, at_most=1))
        if self.half_life is not None:
            settle(self, half_life=number("half_life", self.half_life, at_least=1))
        if self.rank is not None:
            settle(self, rank=whole("rank", self.rank, at_least=0, at_most=LARGEST_RANK))

    def directions(self, dim: int) -> int:
        """How many directions are kept beside the diagonal; 0 is all of them."""
        if self.rank is not None:
            return self.rank
        return 0 if dim <= WHOLE_UP_TO else RANK

    def numbers(self, dim: int) -> Floats:
        """The rank, the floor, the half-life, and how much noise is assumed."""
        half_life = math.inf if self.half_life is None else self.half_life
        return np.array([self.directions(dim), self.floor, half_life, assumed_noise(find_link(self.link))])

    def init(self, dim: int) -> Floats:
        """Nothing known."""
        size = belief_size(dim, self.directions(dim))
        if size > LARGEST_STATE:
            raise InvalidInput(
                f"the state would be {size} numbers for dim = {dim} and rank = {self.directions(dim)}; at most "
                f"{LARGEST_STATE:g} fit. Keep fewer directions (rank=1 takes 10 numbers a feature), or fewer features"
            )
        return first_belief(dim, self.directions(dim))

    def fits(self, state: Floats, dim: int) -> bool:
        """A belief of this dimension and rank."""
        return belief_fits(state, dim, self.directions(dim))

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm before the first reward; then mostly the best, and sometimes the one with most reason to hope."""
        here, (K, dim) = borrowed(state), arms.shape
        if here[COUNT] == 0.0 or (settings[FLOOR_AT] > 0.0 and uniform(rng) < settings[FLOOR_AT]):
            return any_index(rng, K)
        chance, angle = uniform_pair(rng)
        share = hopeful_share(here, dim)
        if chance >= share:
            return best_arm(arms, mean_of(here, dim))
        # Box and Muller's normal number: below the share, chance / share is uniform again.
        hope = math.sqrt(-2.0 * math.log(1.0 - chance / share)) * abs(math.cos(2.0 * math.pi * angle))
        if settings[RANK_AT] == 0.0:
            unit = hope_unit(here, settings)
            return most_hopeful(arms, mean_of(here, dim), covariance_of(here, dim), unit, hope)
        levels, slopes = lines(here, settings, arms)
        best = 0
        for a in range(1, K):
            # Differences, as in `most_hopeful`.
            if levels[a] - levels[best] > hope * (slopes[best] - slopes[a]):
                best = a
        return best

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """The exact step of one observation, in the units that are known by now."""
        observe(state, x, reward, link, int(settings[RANK_AT]), settings[HALF_LIFE_AT])
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Exact: the intervals of |Z| in which each arm's line is the highest, the greedy share, and the floor."""
        K, dim = arms.shape
        floor = 1.0 if state[COUNT] == 0.0 else settings[FLOOR_AT]
        levels, slopes = lines(state, settings, arms)
        half_normal_chances(levels, slopes, out)
        share = hopeful_share(state, dim)
        for a in range(K):
            out[a] *= share
        out[best_arm(arms, mean_of(state, dim))] += 1.0 - share
        for a in range(K):
            out[a] = floor / K + (1.0 - floor) * out[a]
        return True


@jittable
def hopeful_share(state: Floats, dim: int) -> float:
    """The chance that a decision is made with hope."""
    rewards = max(float(state[WEIGHT]), 1.0)
    return max(LEAST_SHARE, min(1.0, EAGERNESS * math.sqrt(dim + 1.0) / rewards))


@jittable
def hope_unit(state: Floats, settings: Floats) -> float:
    """What a standard deviation of the score counts: more where rewards are noisier than the link says."""
    return HOPE * math.sqrt(dispersion(state, settings[NOISE_AT]))


@jittable
def lines(state: Floats, settings: Floats, arms: Floats) -> tuple[Floats, Floats]:
    """For each arm its score without hope, and how much a unit of hope adds."""
    K, dim = arms.shape
    rank = int(settings[RANK_AT])
    levels, slopes = np.empty(K), np.empty(K)
    if rank == 0:
        levels_and_widths(arms, mean_of(state, dim), covariance_of(state, dim), levels, slopes)
    else:
        levels_and_widths_sketched(arms, mean_of(state, dim), sketch_of(state, dim, rank), levels, slopes)
    unit = hope_unit(state, settings)
    for a in range(K):
        slopes[a] *= unit
    return levels, slopes
