"""Play the rounds of a problem with an agent, in plain Python."""

import time
from collections.abc import Callable

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.lab.environments import Environment, Rounds, SparseRounds
from glbandits.lab.environments.rounds import has_payoffs
from glbandits.lab.simulation.run_record import RunRecord
from glbandits.policies.agents import AgentFactory, PlayingAgent, read_only_rows

REPORTED_ROUNDS = 100
"""Rounds between two calls of `progress`."""


def check_agents_can_play(agents: AgentFactory, environment: Environment) -> None:
    """Raise InvalidInput if the problem has values and costs: an agent would not know them."""
    if has_payoffs(environment):
        raise InvalidInput(
            f"{agents.name} is an agent, which chooses without values and costs, but {type(environment).__name__} has "
            "them. Compare policies there, or make values and costs features of a problem without payoffs"
        )


class AgentPlayer:
    """An agent in the middle of a run."""

    def __init__(
        self, agents: AgentFactory, environment: Environment, seed: int, noise_seed: int, record: RunRecord
    ) -> None:
        check_agents_can_play(agents, environment)
        self._agent = PlayingAgent(agents.new(environment.dim), agents.name, seed, noise_seed)
        self._noise, self._dim = environment.noise, environment.dim
        self._own_noise = np.random.default_rng([seed, noise_seed]) if noise_seed else None
        self.record, self.seconds = record, 0.0
        self.state = None
        """An agent has no state that can be stored."""

    def play(self, chunk: Rounds, best: Floats, progress: Callable[[int], None] | None = None) -> None:
        """Play the next rounds. Seconds include the copies of arms that the agent gets."""
        noise = chunk.noise if self._own_noise is None else self._noise.draw(self._own_noise, len(chunk))
        regret, choices = np.empty(len(chunk)), np.empty(len(chunk), dtype=np.int64)
        total, first, reported = self.record.total_regret, self.record.played + 1, 0
        start = time.thread_time()
        for t in range(len(chunk)):
            arms = read_only_rows(self._rows(chunk, t, 0, int(chunk.counts[t])), self._dim)
            arm = self._agent.choose(arms, first + t)
            reward = self._noise.reward(float(chunk.expected[t, arm]), float(noise[t]))
            x = read_only_rows(self._rows(chunk, t, arm, arm + 1), self._dim)
            self._agent.learn(x if isinstance(chunk, SparseRounds) else x[0], float(reward), first + t)
            total += best[t] - chunk.payoffs[t, arm]
            choices[t], regret[t] = arm, total
            if progress is not None and (t + 1 - reported == REPORTED_ROUNDS or t + 1 == len(chunk)):
                progress(t + 1 - reported)
                reported = t + 1
        self.seconds += time.thread_time() - start
        self.record.add(choices, regret)

    @staticmethod
    def _rows(chunk: Rounds, t: int, start: int, end: int) -> object:
        """Return arms of a round, as a matrix or SparseRows."""
        if isinstance(chunk, SparseRounds):
            first = int(chunk.starts[t])
            return chunk.arms.rows(first + start, first + end)
        return chunk.arms[t, start:end]
