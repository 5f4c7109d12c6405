"""Rules: how a policy scores arms, and the decisions that follow from scores.

A policy defines one of these functions. `add_decisions` derives from it the choice of one arm, rankings, both with
payoffs, and exact probabilities:

- `theta(state, settings, dim, draw, rng) -> Floats` returns the theta under which arms are scored by x'theta. The
  state contains `draw_count(state, settings)` equally likely draws of theta, by default 1, and `draw` is the index of
  one. A class that draws theta anew for each decision, from `rng`, declares `draws_anew`.
- `index(state, settings, arms, link, out)` writes the score of each arm, without randomness.
- `lines(state, settings, arms, link, levels, slopes) -> ZRange` writes scores level + Z slope, with one random Z.
- `scores(state, settings, arms, draw, rng, link, out)` is the general form of the first two.

With payoffs, the score s of an arm becomes value mu(s) - cost. A line is replaced by its tangent at Z = 0, so it
stays a line: value (mu(level) + Z mu'(level) slope) - cost.
"""

from typing import Any

import numpy as np

from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.common.errors import InvalidInput
from glbandits.compilation.numba_support import by_type, jittable
from glbandits.maths.arm_rows import PayoffArms, arm_count, plain_arms
from glbandits.maths.line_order import (
    ZRange,
    draw_z,
    highest_lines,
    highest_probabilities,
    order_probability,
    orders,
    random_order,
)
from glbandits.maths.links import LinkFunctions
from glbandits.maths.matrix_products import best_arm, set_scores
from glbandits.maths.philox import any_index, uniform
from glbandits.maths.upper_envelope import ROUNDING, highest_line
from glbandits.maths.vectors import add_scaled, first_largest, uniform_mass

RULES = ("theta", "index", "lines", "scores")
PARTS = (*RULES, "random_share", "explores", "draw_count")
"""The functions of a policy from which its decisions follow."""
NO_EXACT_FORM = -1.0
"""Stands for the probability of a ranking under a rule without exact probabilities."""


def check_has_scores(policy: Any, dim: int, purpose: str) -> None:
    """Raise InvalidInput if the policy chooses without a score for each arm."""
    if policy.implementation(dim).rank is None:
        raise InvalidInput(
            f"{policy.name} has no score for each arm, which {purpose} need. Use another policy, such as optimist."
        )


def add_decisions(kind: Any) -> None:
    """Derive the decisions of a policy class from its rule.

    A class that defines `choose` alone has no scores, so it has neither payoffs nor rankings.
    """
    if set(PARTS).isdisjoint(vars(kind)):
        if "choose" in vars(kind):
            kind.choose_by_payoff = kind.payoff_probabilities = kind.rank = None
        return
    rule = next((name for base in kind.__mro__ for name in RULES if name in vars(base)), None)
    if rule is None:  # an abstract class
        return
    own = next(base for base in kind.__mro__ if {"explores", "random_share"} & vars(base).keys())
    if "explores" not in vars(own):  # a sparse form inherits `explores` of its dense form
        _add_explores(kind)
    _add_draw_count(kind, rule)
    if rule in ("theta", "index"):
        _add_scores(kind, rule)
    if "choose" not in vars(kind):
        _add_choose(kind, rule)
    _add_decisions_by_lines(kind, rule)
    if kind.draws_anew:
        _add_no_probabilities(kind)
    elif "probabilities" not in vars(kind):
        kind.probabilities = staticmethod(kind.payoff_probabilities)


def attach(kind: type, *functions: Any) -> None:
    """Add functions to a class as static methods, under names that Numba's cache can find."""
    for function in functions:
        function.__module__, function.__qualname__ = kind.__module__, f"{kind.__qualname__}.{function.__name__}"
        setattr(kind, function.__name__, staticmethod(jittable(function)))


def _add_explores(kind: Any) -> None:
    random_share = kind.random_share

    def explores(state: Floats, settings: Any, rng: Generator) -> bool:
        """Whether this decision is random. Draws a number only if that is not certain."""
        share = random_share(state, settings)
        return bool(share >= 1.0 or (share > 0.0 and uniform(rng) < share))

    attach(kind, explores)


def _add_draw_count(kind: Any, rule: str) -> None:
    """Add the number of draws, unless a class defines it for rules that can have several."""
    if rule in ("theta", "scores") and not kind.draws_anew and not hasattr(kind.draw_count, "is_constant"):
        return
    count = 0 if kind.draws_anew and rule in ("theta", "scores") else 1

    def draw_count(state: Floats, settings: Any) -> int:
        """The number of equally likely draws in the state; 0 if each decision draws anew."""
        return count

    draw_count.is_constant = True  # type: ignore[attr-defined]
    attach(kind, draw_count)


def _add_scores(kind: Any, rule: str) -> None:
    """Write `theta` or `index` in the form of `scores`."""
    own: Any = getattr(kind, rule)

    def scores_by_theta(
        state: Floats, settings: Any, arms: Floats, draw: int, rng: Generator, link: LinkFunctions, out: Floats
    ) -> None:
        set_scores(out, arms, own(state, settings, arms.shape[1], draw, rng))

    def scores_by_index(
        state: Floats, settings: Any, arms: Any, draw: int, rng: Generator, link: LinkFunctions, out: Floats
    ) -> None:
        own(state, settings, arms, link, out)

    scores = scores_by_theta if rule == "theta" else scores_by_index
    scores.__name__ = "scores"
    attach(kind, scores)


def _add_choose(kind: Any, rule: str) -> None:
    """Add the choice of the arm with the highest score, or the highest line, to a class."""
    explores, draw_count = kind.explores, kind.draw_count
    own: Any = getattr(kind, "scores" if rule == "index" else rule)

    def choose_by_theta(state: Floats, settings: Any, arms: Any, rng: Generator, link: LinkFunctions) -> int:
        """Choose a random arm if the rule explores, else the arm with the largest x'theta."""
        if explores(state, settings, rng):
            return any_index(rng, arms.shape[0])
        draw = any_draw(draw_count(state, settings), rng)
        return best_arm(arms, own(state, settings, arms.shape[1], draw, rng))

    def choose_by_scores(state: Floats, settings: Any, arms: Any, rng: Generator, link: LinkFunctions) -> int:
        """Choose a random arm if the rule explores, else the arm with the highest score."""
        count = arm_count(arms)
        if explores(state, settings, rng):
            return any_index(rng, count)
        out = np.empty(count)
        own(state, settings, arms, any_draw(draw_count(state, settings), rng), rng, link, out)
        return first_largest(out)

    def choose_by_lines(state: Floats, settings: Any, arms: Any, rng: Generator, link: LinkFunctions) -> int:
        """Choose a random arm if the rule explores, else the arm whose line is the highest at a random Z."""
        count = arm_count(arms)
        if explores(state, settings, rng):
            return any_index(rng, count)
        levels, slopes = np.empty(count), np.empty(count)
        z = draw_z(own(state, settings, arms, link, levels, slopes), rng)
        return highest_line(levels, slopes, z)

    choose: Any = {"theta": choose_by_theta, "lines": choose_by_lines}.get(rule, choose_by_scores)
    choose.__name__ = "choose"
    attach(kind, choose)


def _add_no_probabilities(kind: Any) -> None:
    """Add the probabilities of a rule that has none after its random start: less to compile than the general ones."""
    random_share = kind.random_share

    def payoff_probabilities(state: Floats, settings: Any, offered: Any, link: LinkFunctions, out: Floats) -> bool:
        """Write equal probabilities while all decisions are random. Otherwise there is no exact form."""
        uniform_mass(out)
        return bool(random_share(state, settings) >= 1.0)

    attach(kind, payoff_probabilities)
    if "probabilities" not in vars(kind):
        kind.probabilities = staticmethod(payoff_probabilities)


def _add_decisions_by_lines(kind: Any, rule: str) -> None:
    """Add what takes the scores of arms as lines, which are level without randomness."""
    explores, random_share, draw_count = kind.explores, kind.random_share, kind.draw_count
    own, are_rewards = kind.lines if rule == "lines" else kind.scores, kind.scores_are_rewards

    def levels_by_scores(
        state: Floats, settings: Any, offered: Any, draw: int, rng: Generator, link: LinkFunctions,
        levels: Floats, slopes: Floats,
    ) -> ZRange:  # fmt: skip
        """Write the level of each arm, and slopes of 0."""
        own(state, settings, plain_arms(offered), draw, rng, link, levels)
        for a in range(slopes.shape[0]):
            slopes[a] = 0.0
        return apply_payoffs(offered, ZRange(0.0, 0.0, 0.0), are_rewards, link, levels, slopes)

    def levels_by_lines(
        state: Floats, settings: Any, offered: Any, draw: int, rng: Generator, link: LinkFunctions,
        levels: Floats, slopes: Floats,
    ) -> ZRange:  # fmt: skip
        """Write the level and slope of each arm."""
        z = own(state, settings, plain_arms(offered), link, levels, slopes)
        return apply_payoffs(offered, z, are_rewards, link, levels, slopes)

    write_lines = levels_by_lines if rule == "lines" else levels_by_scores
    write_lines.__name__ = "write_lines"
    attach(kind, write_lines)

    def choose_by_payoff(state: Floats, settings: Any, offered: Any, rng: Generator, link: LinkFunctions) -> int:
        """Choose a random arm if the rule explores, else the arm with the highest payoff."""
        count = arm_count(plain_arms(offered))
        if explores(state, settings, rng):
            return any_index(rng, count)
        levels, slopes, draw = np.empty(count), np.empty(count), any_draw(draw_count(state, settings), rng)
        z = draw_z(write_lines(state, settings, offered, draw, rng, link, levels, slopes), rng)
        return highest_line(levels, slopes, z)

    def payoff_probabilities(state: Floats, settings: Any, offered: Any, link: LinkFunctions, out: Floats) -> bool:
        """Write exact probabilities of the arms. Returns False if the rule has none."""
        share, draws, count = random_share(state, settings), draw_count(state, settings), out.shape[0]
        uniform_mass(out)
        if share >= 1.0 or draws == 0:
            return bool(share >= 1.0)
        for a in range(count):
            out[a] = share / count
        levels, slopes, highest, rng = np.empty(count), np.empty(count), np.empty(count), no_generator()
        for draw in range(draws):
            z = write_lines(state, settings, offered, draw, rng, link, levels, slopes)
            highest_probabilities(levels, slopes, z, highest)
            add_scaled(out, (1.0 - share) / draws, highest)
        return True

    def rank(state: Floats, settings: Any, offered: Any, rng: Generator, link: LinkFunctions, order: Ints) -> float:
        """Write different arms in order, as many as `order` has room for, and return the probability of this order."""
        share, draws, count = random_share(state, settings), draw_count(state, settings), arm_count(plain_arms(offered))
        of_random_order = share / orders(count, order.shape[0])
        is_random = explores(state, settings, rng)
        if is_random:
            random_order(rng, count, order)
            if share >= 1.0 or draws == 0:
                return of_random_order if share >= 1.0 else NO_EXACT_FORM
        levels, slopes, drawn = np.empty(count), np.empty(count), 0 if is_random else any_draw(draws, rng)
        z = write_lines(state, settings, offered, drawn, rng, link, levels, slopes)
        if not is_random:
            highest_lines(levels, slopes, draw_z(z, rng), order)
        if draws == 0:
            return NO_EXACT_FORM
        total = order_probability(levels, slopes, z, order)
        if not is_random:
            total = max(total, ROUNDING)  # rounding errors may find an order of probability 0
        for draw in range(draws):
            if draw != drawn:
                z = write_lines(state, settings, offered, draw, rng, link, levels, slopes)
                total += order_probability(levels, slopes, z, order)
        return float(of_random_order + (1.0 - share) * total / draws)

    attach(kind, choose_by_payoff, payoff_probabilities, rank)


@jittable
def any_draw(count: int, rng: Generator) -> int:
    """Return the index of a random draw. Advances the generator only if there are several."""
    return any_index(rng, count) if count > 1 else 0


@jittable
def no_generator() -> Generator:
    """A generator for functions that do not use it."""
    return np.zeros(3, dtype=np.uint64)


@jittable
def _with_payoffs(
    offered: PayoffArms, z: ZRange, are_rewards: bool, link: LinkFunctions, levels: Floats, slopes: Floats
) -> ZRange:
    for a in range(levels.shape[0]):
        mean, slope = levels[a], 1.0
        if not are_rewards:
            mean, slope = link.mean(levels[a] + z.intercept), link.slope(levels[a] + z.intercept)
        levels[a] = offered.values[a] * mean - offered.costs[a]
        slopes[a] = offered.values[a] * slope * slopes[a]
    return ZRange(z.low, z.high, 0.0)


@by_type(PayoffArms, _with_payoffs)
def apply_payoffs(
    offered: Any, z: ZRange, are_rewards: bool, link: LinkFunctions, levels: Floats, slopes: Floats
) -> ZRange:
    """Replace lines of scores by lines of payoffs if `offered` has payoffs."""
    return z
