"""Policies that play a log, any number of them in one reading of it."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from glbandits.compilation import entry_point
from glbandits.errors import InvalidInput, check_float, check_int, lookup
from glbandits.evaluation.logs.arm_features import FixedArms
from glbandits.evaluation.logs.logged_data import BLOCK, Log, LoggedData, chosen_features
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.evaluation.replay.learning_curve import Learn, LearningCurve, WeightedSums
from glbandits.evaluation.replay.play_loops import all_recipe, matched_recipe, sparse_all_recipe, sparse_matched_recipe
from glbandits.maths.links import Link, find_link
from glbandits.maths.philox import generator
from glbandits.policies import Policy
from glbandits.policy.compiled_calls import convert_index_errors
from glbandits.policy.policy_checks import check_is_policy, check_policy
from glbandits.records import Floats, Ints
from glbandits.sparse_policies import sparse_form

LONGEST, LONG = 3600.0, 30.0
"""Seconds that a policy may take for a log, and from which on there is a warning."""
SLOW_BLOCK = 1000
"""Rows of a block if a policy fits all rewards again after each of them, so that progress is seen."""
SECONDS_PER_STEP = 4e-9
"""Of a fit, for each row and feature, after a warm start."""
SAMPLED_ROWS = 5000

KEEPING_STREAM = 2**62
"""The stream of random numbers that keeps rows, so that they take none from the policy."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How logs are played; `play_log` says what its settings mean."""

    learn: Learn = "matched"
    exact: bool = False
    least_propensity: float | None = None
    points: int = 1

    def __post_init__(self) -> None:
        lookup("way to learn", self.learn, dict.fromkeys(("matched", "all")))
        check_int("points", self.points, at_least=1)
        if self.least_propensity is not None:
            check_float("least_propensity", self.least_propensity, above=0, at_most=1)
            if self.learn == "all":
                raise InvalidInput('least_propensity belongs to learn="matched"; learn="all" leaves no row out')
        if self.exact and self.learn == "matched":
            raise InvalidInput('exact belongs to learn="all"; learn="matched" needs a decision for each row')


def play_together(
    policies: Sequence[Policy],
    log: Log,
    seeds: Sequence[int],
    rules: Rules,
    progress: Callable[[int], None] | None = None,
    *,
    size: int | None = None,
) -> list[list[LearningCurve]]:
    """The curve of each policy with each seed, each as if alone: but the log is checked once, and played once for all.

    `progress` is called with the number of rows just played, summed over policies and seeds. `size` is the number of
    rows of a block, `block_rows(policies)` by default: sums are rounded in the same way only with the same size.
    """
    smallest, length = _check(log, policies)
    check_duration(policies, log, length, rules.learn, seeds=len(seeds))
    if rules.learn == "matched" and rules.least_propensity is None:
        rules = replace(rules, least_propensity=smallest)
    players = [[LogPlayer(policy, log.dim, seed, rules, sparse=log.sparse) for seed in seeds] for policy in policies]
    for block in log.blocks(size or block_rows(policies)):
        rows = Rows.of(block)
        for player in (player for same_policy in players for player in same_policy):
            player.play(rows)
            if progress is not None:
                progress(len(block))
    return [[player.curve() for player in same_policy] for same_policy in players]


def _check(log: Log, policies: Sequence[Policy]) -> tuple[float, int]:
    """The smallest propensity of a log that all of these policies can learn from, and the number of its rows."""
    if not isinstance(log, Log):
        raise InvalidInput(f"log must be LoggedData or another Log; got {type(log).__name__}")
    check_int("the number of features of the log", log.dim, at_least=1)
    for policy in policies:
        check_policy(sparse_form(check_is_policy(policy), log.dim) if log.sparse else policy, log.dim)
    learners = {find_link(policy.link): policy.name for policy in policies}
    smallest, first_row = 1.0, 0
    for block in log.blocks():
        smallest = min(smallest, float(propensities_of(block).min(initial=1.0)))
        for link, name in learners.items():
            _check_rewards(block.rewards, link, name, first_row)
        first_row += len(block)
    if not first_row:
        raise InvalidInput("log must have at least one row; got none")
    return smallest, first_row


def block_rows(policies: Iterable[Policy]) -> int:
    """Rows that policies should play or learn together."""
    return SLOW_BLOCK if any(policy.keeps_history for policy in policies) else BLOCK


def check_duration(policies: Iterable[Policy], log: Log, rows: int, learn: Learn, *, seeds: int = 1) -> None:
    """Refuse a policy that would take hours for so many rows, and warn if all policies and seeds together take long.

    Only policies that fit all rewards again after each of them do, and these have no sparse form. A fit takes
    O(distinct rows x features); how many rows are distinct is taken from the first ones of the log.
    """
    slow = [] if log.sparse else [policy for policy in policies if policy.keeps_history]
    if not slow:
        return
    block = next(iter(log.blocks()))
    rewards = rows if learn == "all" else rows // block.arms.most
    sample = chosen_features(block)[:SAMPLED_ROWS]
    distinct = len(np.unique(sample, axis=0))
    if distinct > len(sample) // 2:  # nearly every row is new, so the next ones will be too
        distinct = max(distinct, rewards * distinct // (2 * len(sample)))
    seconds = SECONDS_PER_STEP * rewards * distinct * log.dim
    if seconds > LONGEST:
        raise InvalidInput(
            f"{slow[0].name} fits all rewards again after each of them: about {seconds / 3600:.1f} hours for "
            f"{rewards:,} rewards with {log.dim} features. Use a policy of constant cost, such as "
            "optimist, or fewer rows."
        )
    if seconds * seeds * len(slow) > LONG:
        runs = f", {len(slow) * seeds} times" if len(slow) * seeds > 1 else ""
        warnings.warn(
            f"{slow[0].name} fits all rewards again after each of them{runs}: about {seconds * seeds * len(slow):.0f} "
            f"seconds for {rewards:,} rewards with {log.dim} features. optimist takes constant time for each.",
            stacklevel=2,
        )


def propensities_of(block: LoggedData) -> Floats:
    """Those of a log that has them."""
    if block.propensities is None:
        raise InvalidInput(
            "log must have propensities, the probabilities of the chosen arms; got none. If nobody wrote them down, "
            "have them estimated: glbandits.evaluation.estimate_propensities"
        )
    return block.propensities


def _check_rewards(rewards: Floats, link: Link, learner: str, first_row: int) -> None:
    wrong = ~((rewards >= link.lowest_reward) & (rewards <= link.highest_reward))
    if wrong.any():
        row = int(np.argmax(wrong))
        try:
            link.check_reward(float(rewards[row]))
        except InvalidInput as error:
            raise InvalidInput(f"{learner} cannot learn row {first_row + row}: {error}") from None


class Rows(NamedTuple):
    """A block of rows as compiled code reads it."""

    arms: tuple[Any, ...]
    """As the loops take them: an array (n, most, dim) and 1; (1, most, dim) and 0 if all rows have the same; or where
    the arms of each row begin, and the three arrays of `SparseRows`."""
    counts: Ints
    chosen: Ints
    rewards: Floats
    propensities: Floats
    clusters: Ints | None

    @classmethod
    def of(cls, block: LoggedData) -> "Rows":
        """Those of a block. Arms that are the same in every row are not repeated."""
        arms: tuple[Any, ...]
        if isinstance(block.arms, SparseArms):
            arms = (np.ascontiguousarray(block.arms.first_arms), *block.arms.arms)
        elif isinstance(block.arms, FixedArms):
            arms = np.ascontiguousarray(block.arms.arms[np.newaxis]), 0
        else:
            arms = np.ascontiguousarray(block.arms.features()), 1
        return cls(
            arms=arms,
            counts=np.ascontiguousarray(block.arms.counts),
            chosen=np.ascontiguousarray(block.chosen),
            rewards=np.ascontiguousarray(block.rewards),
            propensities=propensities_of(block),
            clusters=block.clusters,
        )


_LOOPS = {
    ("matched", False): matched_recipe,
    ("all", False): all_recipe,
    ("matched", True): sparse_matched_recipe,
    ("all", True): sparse_all_recipe,
}
"""By the way to learn, and whether rows are sparse."""


class LogPlayer:
    """A policy in the middle of a log."""

    def __init__(self, policy: Policy, dim: int, seed: int, rules: Rules, *, sparse: bool = False) -> None:
        self._policy, self._seed, self._rules = policy, seed, rules
        form = sparse_form(policy, dim) if sparse else policy
        recipe = _LOOPS[rules.learn, sparse]
        self._play = entry_point(recipe, form.implementation(dim), find_link(policy.link)).compiled()
        self._state, self._settings, self._rng = form.init(dim), form.packed_settings(dim), generator(seed)
        self._keeping = generator(seed, KEEPING_STREAM)
        self._sums, self._matched, self._below = WeightedSums(rules.points), 0, 0

    def play(self, rows: Rows) -> None:
        """The next rows."""
        least = self._rules.least_propensity
        with convert_index_errors(self._policy, "the log"):
            weights = self._all(rows) if least is None else self._kept(rows, least)
        self._sums.add(weights, rows.rewards, rows.clusters)

    def _kept(self, rows: Rows, least: float) -> Floats:
        """The weights of rows of which those that match are thinned out and learned."""
        matched, kept = np.empty(len(rows.chosen)), np.empty(len(rows.chosen))
        self._state = self._play(*self._before(rows), least / rows.propensities, self._keeping, matched, kept)
        self._matched += int(matched.sum())
        self._below += int(matched @ (rows.propensities < least))
        return kept / np.minimum(rows.propensities, least)

    def _all(self, rows: Rows) -> Floats:
        """The weights of rows that are all learned."""
        probabilities = np.empty(len(rows.chosen))
        self._state = self._play(*self._before(rows), self._rules.exact, probabilities)
        self._matched += int(np.count_nonzero(probabilities))
        return probabilities / rows.propensities

    def _before(self, rows: Rows) -> tuple[Any, ...]:
        """The arguments that all loops begin with."""
        return self._state, self._settings, self._rng, *rows.arms, rows.counts, rows.chosen, rows.rewards

    def curve(self) -> LearningCurve:
        """What has come so far."""
        return LearningCurve(
            policy=self._policy,
            seed=self._seed,
            learn=self._rules.learn,
            least_propensity=self._rules.least_propensity,
            matched=self._matched,
            below=self._below,
            **self._sums.curve_fields(),
        )
