"""Decisions: the choice of one arm, rankings, and their probabilities, all from the rule of a policy.

A policy defines one of these functions, its rule:

- `theta(state, settings, dim, draw, rng) -> Floats` returns the theta under which arms are scored by x'theta. The
  state contains `draw_count(state, settings)` equally likely draws of theta, by default 1, and `draw` is the index of
  one. A class that draws theta anew for each decision, from `rng`, declares `draws_anew`.
- `index(state, settings, arms, link, out)` writes the score of each arm, without randomness.
- `lines(state, settings, arms, link, levels, slopes) -> ZRange` writes scores level + Z slope, with one random Z.
- `scores(state, settings, arms, draw, rng, link, out)` is the general form of the first two.

The first, second and last are lines of slope 0, so the functions below see lines only. They take `offered`: arms, or
arms with payoffs (`PayoffArms`). With payoffs, the score s of an arm becomes value mu(s) - cost. A line is replaced by
its tangent at Z = 0, so it stays a line: value (mu(level) + Z mu'(level) slope) - cost.

`decisions_of` returns the decisions of a policy class. For `LinUcb`, whose rule is an index, `choose` is
`choose_by_lines`.
"""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.common.errors import InvalidInput
from glbandits.compilation.numba_support import by_type, jittable
from glbandits.maths.arm_rows import PayoffArms, arm_count, plain_arms
from glbandits.maths.line_order import (
    ZRange,
    draw_z,
    highest_line,
    highest_lines,
    highest_probabilities,
    order_probability,
    orders,
    random_order,
)
from glbandits.maths.links import LinkFunctions
from glbandits.maths.matrix_products import best_arm, set_scores
from glbandits.maths.philox import any_index, uniform
from glbandits.maths.upper_envelope import ROUNDING
from glbandits.maths.vectors import add_scaled, uniform_mass

RULES = ("theta", "index", "lines", "scores")
PARTS = (*RULES, "random_share", "explores", "draw_count")
"""The functions of a policy from which its decisions follow."""
NO_EXACT_FORM = -1.0
"""Stands for the probability of a ranking under a rule without exact probabilities."""


class Rule(NamedTuple):
    """The rule of a policy in the form that all decisions take: functions for compiled code."""

    lines: Any
    """`lines(state, settings, arms, draw, rng, link, levels, slopes) -> ZRange`."""
    explores: Any
    """`explores(state, settings, rng) -> bool`: whether this decision is random."""
    random_share: Any
    """`random_share(state, settings) -> float`: the probability that it is."""
    draw_count: Any
    """`draw_count(state, settings) -> int`: the number of draws in the state; 0 if each decision draws its own."""
    scores_are_rewards: bool
    theta: Any = None
    """The rule itself if it is `theta`."""


@jittable
def choose_by_lines(rule: Rule, state: Floats, settings: Any, offered: Any, rng: Generator, link: LinkFunctions) -> int:
    """Choose a random arm if the rule explores, else the arm whose line is the highest at a random Z."""
    count = arm_count(plain_arms(offered))
    if rule.explores(state, settings, rng):
        return any_index(rng, count)
    levels, slopes, draw = np.empty(count), np.empty(count), any_draw(rule.draw_count(state, settings), rng)
    z = draw_z(write_lines(rule, state, settings, offered, draw, rng, link, levels, slopes), rng)
    return highest_line(levels, slopes, z)


@jittable
def choose_by_theta(
    rule: Rule,
    state: Floats,
    settings: Any,
    arms: Any,
    rng: Generator,
    link: LinkFunctions,
) -> int:
    """The same choice for a rule `theta` and arms without payoffs, in less time: it needs no arrays."""
    if rule.explores(state, settings, rng):
        return any_index(rng, arms.shape[0])
    draw = any_draw(rule.draw_count(state, settings), rng)
    return best_arm(arms, rule.theta(state, settings, arms.shape[1], draw, rng))


@jittable
def probabilities_by_lines(
    rule: Rule, state: Floats, settings: Any, offered: Any, link: LinkFunctions, out: Floats
) -> bool:
    """Write the exact probability of each arm. Returns False if there is none: each decision draws its own."""
    share, draws, count = rule.random_share(state, settings), rule.draw_count(state, settings), out.shape[0]
    uniform_mass(out)
    if share >= 1.0 or draws == 0:
        return bool(share >= 1.0)
    for a in range(count):
        out[a] = share / count
    levels, slopes, highest, rng = np.empty(count), np.empty(count), np.empty(count), no_generator()
    for draw in range(draws):
        z = write_lines(rule, state, settings, offered, draw, rng, link, levels, slopes)
        highest_probabilities(levels, slopes, z, highest)
        add_scaled(out, (1.0 - share) / draws, highest)
    return True


@jittable
def probabilities_of_random_start(
    rule: Rule,
    state: Floats,
    settings: Any,
    offered: Any,
    link: LinkFunctions,
    out: Floats,
) -> bool:
    """Write equal probabilities. Returns whether they are exact, because this decision is random.

    For rules that draw random numbers for each decision: their later probabilities have no exact form.
    """
    uniform_mass(out)
    return bool(rule.random_share(state, settings) >= 1.0)


@jittable
def rank_by_lines(
    rule: Rule, state: Floats, settings: Any, offered: Any, rng: Generator, link: LinkFunctions, order: Ints
) -> float:
    """Write different arms in order, as many as `order` has room for, and return the probability of this order.

    Returns NO_EXACT_FORM if the rule draws random numbers for each decision.
    """
    share, draws = rule.random_share(state, settings), rule.draw_count(state, settings)
    count = arm_count(plain_arms(offered))
    of_random_order = share / orders(count, order.shape[0])
    is_random = rule.explores(state, settings, rng)
    if is_random:
        random_order(rng, count, order)
        if share >= 1.0 or draws == 0:
            return of_random_order if share >= 1.0 else NO_EXACT_FORM
    levels, slopes, drawn = np.empty(count), np.empty(count), 0 if is_random else any_draw(draws, rng)
    z = write_lines(rule, state, settings, offered, drawn, rng, link, levels, slopes)
    if not is_random:
        highest_lines(levels, slopes, draw_z(z, rng), order)
    if draws == 0:
        return NO_EXACT_FORM
    total = order_probability(levels, slopes, z, order)
    if not is_random:
        total = max(total, ROUNDING)  # rounding errors may find an order of probability 0
    for draw in range(draws):
        if draw != drawn:
            z = write_lines(rule, state, settings, offered, draw, rng, link, levels, slopes)
            total += order_probability(levels, slopes, z, order)
    return float(of_random_order + (1.0 - share) * total / draws)


@jittable
def write_lines(
    rule: Rule, state: Floats, settings: Any, offered: Any, draw: int, rng: Generator, link: LinkFunctions,
    levels: Floats, slopes: Floats,
) -> ZRange:  # fmt: skip
    """Write the line of each arm: of its score, or of its payoff if `offered` has payoffs."""
    z = rule.lines(state, settings, plain_arms(offered), draw, rng, link, levels, slopes)
    return apply_payoffs(offered, z, rule.scores_are_rewards, link, levels, slopes)


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


class DecisionFunctions(NamedTuple):
    """The decisions of a policy class, as functions of entry points: with the rule, but without a link."""

    choose: Any
    """`choose(state, settings, arms, rng, link) -> int`."""
    probabilities: Any
    """`probabilities(state, settings, arms, link, out) -> bool`. It returns False if it has no exact form."""
    choose_by_payoff: Any
    """`choose` for PayoffArms. This and the next two are None for a policy without a score for each arm."""
    payoff_probabilities: Any
    """`probabilities` for PayoffArms."""
    rank: Any
    """`rank(state, settings, offered, rng, link, order) -> float` for arms or PayoffArms."""


def decisions_of(kind: Any) -> DecisionFunctions:
    """Return the decisions of a policy class: its own `choose` and `probabilities`, and those that its rule gives.

    Of a class and its bases, the nearest one that defines a decision or a part of the rule counts. So a subclass that
    defines another rule does not inherit `choose`, and one that defines `choose` alone has no score for each arm.
    """
    if kind not in _decisions:
        _decisions[kind] = _find_decisions(kind)
    return _decisions[kind]


_decisions: WeakKeyDictionary[type, DecisionFunctions] = WeakKeyDictionary()


def _find_decisions(kind: Any) -> DecisionFunctions:
    chooses, knows = _nearest(kind, "choose", *PARTS), _nearest(kind, "choose", "probabilities", *PARTS)
    own_choose = kind.choose if "choose" in chooses else None
    own_probabilities = kind.probabilities if "probabilities" in knows else None
    if set(PARTS).isdisjoint(chooses):
        return DecisionFunctions(own_choose, own_probabilities or no_probabilities, None, None, None)
    rule = rule_of(kind)
    probabilities = _bound(
        probabilities_of_random_start if rule.draw_count is no_draw else probabilities_by_lines, rule
    )
    choose_by_payoff = _bound(choose_by_lines, rule)
    choose = own_choose or (choose_by_payoff if rule.theta is None else _bound(choose_by_theta, rule))
    return DecisionFunctions(
        choose, own_probabilities or probabilities, choose_by_payoff, probabilities, _bound(rank_by_lines, rule)
    )


def _nearest(kind: Any, *names: str) -> set[str]:
    """Return the names in the nearest class that has one of these names."""
    return next((set(vars(base)) for base in kind.__mro__ if not vars(base).keys().isdisjoint(names)), set())


def has_scores(kind: Any) -> bool:
    """Whether a policy class has a score for each arm, and so rankings and payoffs."""
    return decisions_of(kind).rank is not None


def check_has_scores(kind: Any, purpose: str) -> None:
    """Raise InvalidInput if a policy class chooses without a score for each arm."""
    if not has_scores(kind):
        raise InvalidInput(
            f"{kind.name} has no score for each arm, which {purpose} need. Use another policy, such as optimist."
        )


def rule_of(kind: Any) -> Rule:
    """Return the rule of a policy class that has one."""
    name = next(iter(_nearest(kind, *RULES).intersection(RULES)))
    own, draws, share, explores = getattr(kind, name), kind.draw_count or one_draw, kind.random_share, never
    if name in ("index", "lines"):
        draws = one_draw
    elif kind.draws_anew:
        draws = no_draw
    if "explores" in _nearest(kind, "explores", "random_share"):
        explores = kind.explores
    elif share is not None:
        explores = _explores_with(share)
    forms = {"theta": _lines_of_theta, "index": _lines_of_index, "lines": _lines_of_lines, "scores": _lines_of_scores}
    lines, theta = forms[name](own), own if name == "theta" else None
    return Rule(lines, explores, share or no_share, draws, kind.scores_are_rewards, theta)


def _lines_of_theta(theta: Any) -> Any:
    def lines(
        state: Floats, settings: Any, arms: Any, draw: int, rng: Generator, _link: LinkFunctions,
        levels: Floats, slopes: Floats,
    ) -> ZRange:  # fmt: skip
        set_scores(levels, arms, theta(state, settings, arms.shape[1], draw, rng))
        return level_lines(slopes)

    return jittable(lines)


def _lines_of_index(index: Any) -> Any:
    def lines(
        state: Floats, settings: Any, arms: Any, _draw: int, _rng: Generator, link: LinkFunctions,
        levels: Floats, slopes: Floats,
    ) -> ZRange:  # fmt: skip
        index(state, settings, arms, link, levels)
        return level_lines(slopes)

    return jittable(lines)


def _lines_of_scores(scores: Any) -> Any:
    def lines(
        state: Floats, settings: Any, arms: Any, draw: int, rng: Generator, link: LinkFunctions,
        levels: Floats, slopes: Floats,
    ) -> ZRange:  # fmt: skip
        scores(state, settings, arms, draw, rng, link, levels)
        return level_lines(slopes)

    return jittable(lines)


def _lines_of_lines(own: Any) -> Any:
    def lines(
        state: Floats, settings: Any, arms: Any, _draw: int, _rng: Generator, link: LinkFunctions,
        levels: Floats, slopes: Floats,
    ) -> ZRange:  # fmt: skip
        return own(state, settings, arms, link, levels, slopes)  # type: ignore[no-any-return]

    return jittable(lines)


@jittable
def level_lines(slopes: Floats) -> ZRange:
    """Write slopes of 0: scores without randomness."""
    for a in range(slopes.shape[0]):
        slopes[a] = 0.0
    return ZRange(0.0, 0.0, 0.0)


def _explores_with(random_share: Any) -> Any:
    def explores(state: Floats, settings: Any, rng: Generator) -> bool:
        """Draw a number only if the decision is neither random nor not for certain."""
        share = random_share(state, settings)
        return bool(share >= 1.0 or (share > 0.0 and uniform(rng) < share))

    return jittable(explores)


@jittable
def never(state: Floats, settings: Any, rng: Generator) -> bool:
    """For a rule that never explores."""
    return False


@jittable
def no_share(state: Floats, settings: Any) -> float:
    """The same, as a probability."""
    return 0.0


@jittable
def one_draw(state: Floats, settings: Any) -> int:
    """For a rule without random draws, or with one draw in the state."""
    return 1


@jittable
def no_draw(state: Floats, settings: Any) -> int:
    """For a rule that draws random numbers for each decision."""
    return 0


@jittable
def no_probabilities(state: Floats, settings: Any, arms: Any, link: LinkFunctions, out: Floats) -> bool:
    """For a policy whose probabilities have no exact form."""
    return False


def _bound(decision: Any, rule: Rule) -> Any:
    """Return a decision as a function without its first argument, the rule."""
    lines, explores, random_share, draw_count, are_rewards, theta = rule

    def decide(*arguments: Any) -> Any:
        # Compiled code may call functions that are closure variables, but not those in a tuple that is one.
        return decision(Rule(lines, explores, random_share, draw_count, are_rewards, theta), *arguments)

    decide.__name__ = decision.__name__
    return jittable(decide)
