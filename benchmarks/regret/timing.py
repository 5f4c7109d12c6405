"""Seconds of one run, by which it is decided how much is done for a policy.

They are kept: timed again, a policy near the limit might get another effort when an interrupted benchmark goes on.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from glbandits.environments import Environment, Noise
from glbandits.experiments.run_spec import RunSpec
from glbandits.policy import Policy
from glbandits.records import Rounds
from glbandits.simulation import play_together, prepare, recorded_rounds

CHECKS = 500
"""How often in a run the clock is looked at."""
SEED = 1


@dataclass(frozen=True)
class Timing:
    """How long a run took, or how long it had taken when it was stopped."""

    seconds: float
    rounds: int
    """All rounds of the run, unless it was stopped."""


class Timings:
    """The timings in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, Timing] = {}
        if path.exists():
            self._known = {key: Timing(**known) for key, known in json.loads(path.read_text()).items()}

    def measure(self, policy: Policy, environment: Environment, horizon: int, limit: float) -> Timing:
        """Time a run, after compiling; stop it soon after so many seconds. InvalidInput if the policy cannot play."""
        prepare([policy], environment)
        key = RunSpec(policy, environment, horizon, SEED).key
        if key not in self._known:
            self._known[key] = _measured(policy, environment, horizon, limit)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            half_written = self._path.with_suffix(".part")
            half_written.write_text(json.dumps({key: vars(known) for key, known in self._known.items()}, indent=1))
            half_written.replace(self._path)
        return self._known[key]


def _measured(policy: Policy, environment: Environment, horizon: int, limit: float) -> Timing:
    watched = _Watched(environment, limit)
    try:
        play_together([policy], watched, horizon, SEED, recorded_rounds(horizon, 1))
    except _OutOfTime:
        return Timing(watched.seconds, watched.played)
    return Timing(watched.seconds, horizon)


class _OutOfTime(Exception):
    """The run takes too long."""


class _Watched:
    """An environment that looks at the clock: compiled code cannot be stopped, but it can be fed in small pieces."""

    def __init__(self, environment: Environment, limit: float) -> None:
        self._environment, self._limit = environment, limit
        self.seconds, self.played = 0.0, 0

    @property
    def dim(self) -> int:
        return self._environment.dim

    @property
    def noise(self) -> Noise:
        return self._environment.noise

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        longest = max(1, horizon // CHECKS)
        for piece in self._environment.rounds(horizon, seed):
            for start in range(0, len(piece), longest):
                here = slice(start, start + longest)
                small = Rounds(
                    arms=piece.arms[here],
                    counts=piece.counts[here],
                    expected=piece.expected[here],
                    noise=piece.noise[here],
                    values=piece.values[here],
                )
                began = time.thread_time()
                yield small
                self.seconds += time.thread_time() - began
                self.played += len(small)
                if self.seconds > self._limit:
                    raise _OutOfTime
