"""CPU seconds of one run. They decide how many runs a policy gets."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from glbandits.common.errors import GlbanditsError
from glbandits.lab import Noise, play_together, recorded_rounds
from glbandits.lab.environments import Environment
from glbandits.lab.environments.rounds import Rounds
from glbandits.lab.simulation import prepare
from glbandits.policies.contract import Policy

MIN_CHECKS = 100
"""Clock checks in a run, at least. They are more frequent in its first rounds."""


@dataclass(frozen=True)
class Timing:
    """CPU seconds and rounds of a run.

    Fewer rounds than the horizon if the run exceeded the limit.
    """

    seconds: float
    rounds: int


def measure(policy: Policy, environment: Environment, horizon: int, seed: int, limit: float) -> Timing:
    """Time one run after compiling, and stop it soon after `limit` seconds.

    Raises InvalidInput if the policy does not support the environment.
    """
    prepare([policy], environment)
    timed = _TimedEnvironment(environment, limit)
    try:
        play_together([policy], timed, horizon, seed, recorded_rounds(horizon, 1))
    except _LimitExceeded:
        return Timing(timed.seconds, timed.rounds_done)
    return Timing(timed.seconds, horizon)


class _LimitExceeded(GlbanditsError):
    """The run exceeded its time limit. An error of this package passes unchanged through the simulation."""


class _TimedEnvironment:
    """An environment that yields small blocks, between which a compiled run can stop."""

    def __init__(self, environment: Environment, limit: float) -> None:
        self._environment, self._limit = environment, limit
        self.seconds, self.rounds_done = 0.0, 0

    @property
    def dim(self) -> int:
        return self._environment.dim

    @property
    def noise(self) -> Noise:
        return self._environment.noise

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        for block in self._environment.rounds(horizon, seed):
            start = 0
            while start < len(block):
                length = max(1, min(self.rounds_done // 8, horizon // MIN_CHECKS))
                part = slice(start, start + length)
                small = Rounds(
                    arms=block.arms[part],
                    counts=block.counts[part],
                    expected=block.expected[part],
                    noise=block.noise[part],
                    payoffs=block.payoffs[part],
                )
                began = time.thread_time()
                yield small
                self.seconds += time.thread_time() - began
                start += length
                self.rounds_done += len(small)
                if self.seconds > self._limit:
                    raise _LimitExceeded
