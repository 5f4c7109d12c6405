"""The players of a log: a policy or an agent that plays its rows block by block."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput, check_float, check_int, lookup
from glbandits.compilation.entry_point import entry_point
from glbandits.compilation.recipe import Job
from glbandits.evaluation.learning.learning_curve import Learn, LearningCurve, WeightedSums
from glbandits.evaluation.learning.play_loops import all_recipe, matched_recipe
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.evaluation.logs.payoffs import LogPayoffs, rows_argument
from glbandits.evaluation.logs.sparse_arms import arms_between, packed_arms
from glbandits.maths.links import own_link
from glbandits.maths.philox import generator, uniform
from glbandits.policies.agents import AgentFactory, PlayingAgent, PolicyOrAgent, read_only_rows
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import convert_index_errors
from glbandits.policies.sparse_forms import sparse_form

THINNING_STREAM = 2**62
"""Random stream for thinning rows. It is separate from the stream of the policy."""


@dataclass(frozen=True, kw_only=True)
class PlaySettings:
    """How a log is played; `play_log` documents it."""

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
                raise InvalidInput('least_propensity needs learn="matched"; got learn="all". Leave it out')
        if self.exact and self.learn == "matched":
            raise InvalidInput('exact needs learn="all"; got learn="matched". Leave it out')


def check_propensities(block: LoggedData) -> Floats:
    """Return the propensities. Raises InvalidInput if the log has none."""
    if block.propensities is None:
        raise InvalidInput(
            "log must have propensities, the probabilities of the chosen arms; got none. If they are unknown, call "
            "glbandits.evaluation.estimate_propensities"
        )
    return block.propensities


def play_job(form: Policy, dim: int, learn: Learn, payoffs: bool) -> Job:
    """Return the entry point with which a form of a policy plays a log, for `compile_all`."""
    recipe = matched_recipe if learn == "matched" else all_recipe
    return recipe, form.implementation(dim), own_link(form.link), payoffs


class BlockArrays(NamedTuple):
    """The arrays of a block, as the compiled loops take them."""

    arms: Any
    """A matrix, or a tuple of the three arrays of `SparseRows`."""
    starts: Ints
    """The index in `arms` of the first arm of each row."""
    counts: Ints
    chosen: Ints
    rewards: Floats
    payoffs: Floats
    values_and_costs: LogPayoffs | None
    propensities: Floats
    clusters: Ints | None

    @classmethod
    def from_block(cls, block: LoggedData) -> "BlockArrays":
        """Convert a block. Arms that are the same in every row are not repeated."""
        arms, starts = packed_arms(block.arms)
        return cls(
            arms=arms,
            starts=starts,
            counts=np.ascontiguousarray(block.arms.counts),
            chosen=np.ascontiguousarray(block.chosen),
            rewards=np.ascontiguousarray(block.rewards),
            payoffs=block.payoffs,
            values_and_costs=LogPayoffs.of_block(block),
            propensities=check_propensities(block),
            clusters=block.clusters,
        )


class LogPlayer(ABC):
    """Plays a log block by block, and keeps the sums of its learning curve."""

    def __init__(self, policy: PolicyOrAgent, seed: int, settings: PlaySettings, *, payoffs: bool = False) -> None:
        self._policy, self._seed, self._how = policy, seed, settings
        self._unit = "payoff" if payoffs else "reward"
        self._thinning_rng = generator(seed, THINNING_STREAM)
        self._sums, self._matched, self._below = WeightedSums(settings.points), 0, 0

    def play(self, rows: BlockArrays) -> None:
        """Play the next rows."""
        least = self._how.least_propensity
        weights = self._learn_all(rows) if least is None else self._learn_matched(rows, least)
        self._sums.add(weights, rows.payoffs, rows.clusters)

    @abstractmethod
    def _play_matched(self, rows: BlockArrays, keep: Floats, matched: Floats, kept: Floats) -> None:
        """Learn matched rows that stay, each with the probability `keep`; write 1 or 0 for matched and kept rows."""

    @abstractmethod
    def _play_all(self, rows: BlockArrays, given: Floats) -> None:
        """Learn all rows; before that, write the probability that each logged arm has."""

    def _learn_matched(self, rows: BlockArrays, least: float) -> Floats:
        """Learn the matched rows after thinning; return the weights of all rows."""
        matched, kept = np.empty(len(rows.chosen)), np.empty(len(rows.chosen))
        self._play_matched(rows, least / rows.propensities, matched, kept)
        self._matched += int(matched.sum())
        self._below += int(matched @ (rows.propensities < least))
        return kept / np.minimum(rows.propensities, least)

    def _learn_all(self, rows: BlockArrays) -> Floats:
        """Learn all rows; return their weights."""
        probabilities = np.empty(len(rows.chosen))
        self._play_all(rows, probabilities)
        self._matched += int(np.count_nonzero(probabilities))
        return probabilities / rows.propensities

    def curve(self) -> LearningCurve:
        """Return the learning curve of all rows so far."""
        return self._sums.curve(
            policy=self._policy,
            seed=self._seed,
            learn=self._how.learn,
            least_propensity=self._how.least_propensity,
            matched=self._matched,
            below=self._below,
            unit=self._unit,
        )


class PolicyPlayer(LogPlayer):
    """A policy that plays a log."""

    def __init__(
        self,
        policy: Policy,
        dim: int,
        seed: int,
        settings: PlaySettings,
        *,
        sparse: bool = False,
        payoffs: bool = False,
        rows: int = 0,
    ) -> None:
        super().__init__(policy, seed, settings, payoffs=payoffs)
        self._compiled, self._rows_left = policy, rows
        form = sparse_form(policy, dim) if sparse else policy
        self._entry = entry_point(*play_job(form, dim, settings.learn, payoffs))
        self._state, self._settings, self._rng = form.init(dim), form.packed_settings(dim), generator(seed)

    def _play_matched(self, rows: BlockArrays, keep: Floats, matched: Floats, kept: Floats) -> None:
        with convert_index_errors(self._compiled, "the log"):
            for part, play in self._pieces(rows):
                inputs = self._loop_arguments(rows, part)
                self._state = play(*inputs, keep[part], self._thinning_rng, matched[part], kept[part])

    def _play_all(self, rows: BlockArrays, given: Floats) -> None:
        with convert_index_errors(self._compiled, "the log"):
            for part, play in self._pieces(rows):
                self._state = play(*self._loop_arguments(rows, part), self._how.exact, given[part])

    def _pieces(self, rows: BlockArrays) -> Iterator[tuple[slice, Callable[..., Any]]]:
        self._rows_left -= len(rows.chosen)
        return self._entry.pieces(len(rows.chosen), max(self._rows_left, 0))

    def _loop_arguments(self, rows: BlockArrays, part: slice) -> tuple[Any, ...]:
        """The first arguments of all loops, for a part of the rows."""
        by_row = (rows.starts[part], rows.counts[part], rows.chosen[part], rows.rewards[part])
        arms = rows_argument(rows.arms, rows.values_and_costs, part)
        return self._state, self._settings, self._rng, arms, *by_row


class AgentLogPlayer(LogPlayer):
    """An agent that plays a log, in plain Python."""

    def __init__(self, agents: AgentFactory, dim: int, seed: int, settings: PlaySettings) -> None:
        super().__init__(agents, seed, settings)
        self._agent, self._dim = PlayingAgent(agents.new(dim), agents.name, seed, rows="row"), dim
        self._first_row = 0

    def _play_matched(self, rows: BlockArrays, keep: Floats, matched: Floats, kept: Floats) -> None:
        for i, arms in self._arms(rows):
            agrees = self._agent.choose(arms, self._first_row + i) == rows.chosen[i]
            stays = agrees and (keep[i] >= 1.0 or uniform(self._thinning_rng) < keep[i])
            if stays:
                self._learn(rows, i)
            matched[i], kept[i] = agrees, stays
        self._first_row += len(matched)

    def _play_all(self, rows: BlockArrays, given: Floats) -> None:
        exact = self._how.exact and self._agent.has_probabilities
        for i, arms in self._arms(rows):
            row, chosen = self._first_row + i, rows.chosen[i]
            if exact:
                given[i] = self._agent.probabilities(arms, row)[chosen]
            else:
                given[i] = self._agent.choose(arms, row) == chosen
            self._learn(rows, i)
        self._first_row += len(given)

    def _arms(self, rows: BlockArrays) -> Iterator[tuple[int, Any]]:
        """Yield the index of each row, and its arms as the agent gets them."""
        for i in range(len(rows.chosen)):
            start = int(rows.starts[i])
            yield i, read_only_rows(arms_between(rows.arms, start, start + int(rows.counts[i])), self._dim)

    def _learn(self, rows: BlockArrays, i: int) -> None:
        arm = int(rows.starts[i] + rows.chosen[i])
        x = read_only_rows(arms_between(rows.arms, arm, arm + 1), self._dim)
        self._agent.learn(x[0] if isinstance(x, np.ndarray) else x, float(rows.rewards[i]), self._first_row + i)
