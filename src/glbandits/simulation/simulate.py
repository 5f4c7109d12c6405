"""simulate: regret curves, choices and seconds of a policy on an environment."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from glbandits.environments import Environment
from glbandits.errors import InvalidInput, whole
from glbandits.maths.links import find_link
from glbandits.maths.randomness import generator
from glbandits.policies import Policy
from glbandits.records import Floats, Ints
from glbandits.simulation.loop import play_entry


@dataclass(frozen=True)
class Simulation:
    """What came of playing one policy with several seeds."""

    policy: Policy
    environment: Environment
    horizon: int
    seeds: tuple[int, ...]
    rounds: Ints
    """The rounds at which regret was recorded, (points,): 1-based, the last is the horizon."""
    regret: Floats
    """Cumulative regret, (seeds, points)."""
    choices: NDArray[np.int32] | None
    """The arm of every round, (seeds, horizon), if they were kept."""
    seconds: Floats
    """CPU seconds that the policy itself took, (seeds,): choosing and learning, not making the problem."""

    @property
    def final_regret(self) -> Floats:
        """Cumulative regret at the horizon, (seeds,)."""
        last: Floats = self.regret[:, -1]
        return last

    @property
    def mean(self) -> Floats:
        """Mean regret over the seeds, (points,)."""
        mean: Floats = self.regret.mean(axis=0)
        return mean

    @property
    def standard_error(self) -> Floats:
        """Standard error of that mean, (points,); NaN for a single seed."""
        if len(self.seeds) == 1:
            return np.full(len(self.rounds), math.nan)
        error: Floats = self.regret.std(axis=0, ddof=1) / math.sqrt(len(self.seeds))
        return error


def simulate(
    policy: Policy,
    environment: Environment,
    horizon: int,
    seeds: int | Iterable[int],
    *,
    jobs: int = -1,
    points: int = 1000,
    keep_choices: bool = True,
    compiled: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Simulation:
    """Play a policy against an environment, once for each seed.

    A run with seed s makes the same choices as `Bandit(policy, dim, seed=s)` driven by hand over
    `environment.rounds(horizon, s)`, and as the uncompiled loop. All policies face the same rounds under the same
    seed, so their regrets can be compared pairwise.

    Args:
        policy: settings; a policy that wants the horizon must be given it there.
        environment: a problem, such as `Synthetic()`.
        horizon: T, the number of rounds.
        seeds: the seeds themselves, or how many: n means 0 .. n-1.
        jobs: how many seeds run at once; -1 for one per core. Threads by default, because the loop holds no lock;
            `joblib.parallel_config` chooses another backend.
        points: the most rounds at which regret is recorded.
        keep_choices: keep the arm of every round; without it memory does not grow with the horizon.
        compiled: False plays the same functions as plain Python, some thousand times slower.
        progress: called with the number of rounds just played, from the thread that played them.

    >>> from glbandits import Uniform
    >>> from glbandits.environments import Synthetic
    >>> result = simulate(Uniform(), Synthetic(), horizon=500, seeds=4)
    >>> result.regret.shape, result.choices.shape
    ((4, 500), (4, 500))
    """
    if not isinstance(policy, Policy) or isinstance(policy, type):
        raise InvalidInput(f"policy must be settings such as SgdTs(); got {policy!r}")
    if not isinstance(environment, Environment) or isinstance(environment, type):
        raise InvalidInput(f"environment must be a problem such as Synthetic(); got {environment!r}")
    horizon, points = whole("horizon", horizon, at_least=1), whole("points", points, at_least=1)
    if whole("jobs", jobs, at_least=-1) == 0:
        raise InvalidInput("jobs must be a number of runs at once, or -1 for one per core; got 0")
    chosen = _seeds(seeds)
    _check_rewards(policy, environment)
    play_entry(type(policy), find_link(policy.link), environment.noise, compiled)  # compile once, before the runs
    rounds = np.unique(np.linspace(1, horizon, min(points, horizon)).round().astype(np.int64))
    runs = Parallel(n_jobs=jobs, prefer="threads")(
        delayed(_run)(policy, environment, horizon, seed, compiled, rounds, keep_choices, progress) for seed in chosen
    )
    regret, choices, seconds = zip(*runs, strict=True)
    return Simulation(
        policy=policy,
        environment=environment,
        horizon=horizon,
        seeds=chosen,
        rounds=rounds,
        regret=np.array(regret),
        choices=np.array(choices) if keep_choices else None,
        seconds=np.array(seconds),
    )


def _run(
    policy: Policy,
    environment: Environment,
    horizon: int,
    seed: int,
    compiled: bool,
    rounds: Ints,
    keep_choices: bool,
    progress: Callable[[int], None] | None,
) -> tuple[Floats, NDArray[np.int32] | None, float]:
    play = play_entry(type(policy), find_link(policy.link), environment.noise, compiled)
    state, settings, rng = policy.init(environment.dim), policy.numbers(environment.dim), generator(seed)
    recorded = np.empty(len(rounds))
    kept = np.empty(horizon, dtype=np.int32) if keep_choices else None
    seconds, played, total = 0.0, 0, 0.0
    for piece in environment.rounds(horizon, seed):
        if piece.arms.shape[2] != environment.dim or not 0 < len(piece) <= horizon - played:
            raise InvalidInput(
                f"rounds must yield {horizon} rounds of {environment.dim} features, in pieces that are not empty; "
                f"got arms of shape {piece.arms.shape} after {played} rounds"
            )
        regret, choices, best = np.empty(len(piece)), np.empty(len(piece), dtype=np.int64), piece.best()
        start = time.thread_time()
        state = play(
            state, settings, rng, piece.arms, piece.counts, piece.expected, best, piece.noise, total, choices, regret
        )
        seconds += time.thread_time() - start
        here = slice(*np.searchsorted(rounds, [played + 1, played + len(piece) + 1]))
        recorded[here] = regret[rounds[here] - 1 - played]
        if kept is not None:
            kept[played : played + len(piece)] = choices
        played, total = played + len(piece), float(regret[-1])
        if progress is not None:
            progress(len(piece))
    if played != horizon:
        raise InvalidInput(f"rounds must yield {horizon} rounds; got {played}")
    return recorded, kept, seconds


def _seeds(seeds: int | Iterable[int]) -> tuple[int, ...]:
    listed = seeds if isinstance(seeds, Iterable) else range(whole("seeds", seeds, at_least=1))
    chosen = tuple(whole("a seed", seed, at_least=0) for seed in listed)
    if not chosen:
        raise InvalidInput("seeds must be at least one seed, or how many; got none")
    return chosen


def _check_rewards(policy: Policy, environment: Environment) -> None:
    link, noise = find_link(policy.link), environment.noise
    if not (link.lowest_reward <= noise.lowest_reward and noise.highest_reward <= link.highest_reward):
        raise InvalidInput(
            f"{policy.name} with the {link.name} link takes rewards from {link.lowest_reward:g} to "
            f"{link.highest_reward:g}; {noise.name} rewards go from {noise.lowest_reward:g} to "
            f"{noise.highest_reward:g}. Give the policy a link for them"
        )
