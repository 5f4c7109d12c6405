"""Runs: policies against an environment, for many seeds."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from glbandits.display import Displayed
from glbandits.environments import Environment, SparseEnvironment, SparseRounds
from glbandits.errors import InvalidInput, check_int
from glbandits.maths.links import find_link
from glbandits.maths.philox import generator, seed_list
from glbandits.plotting import draw_curve, new_axes
from glbandits.policy import Policy
from glbandits.policy.compiled_calls import convert_index_errors
from glbandits.policy.policy_checks import check_is_policy, check_policy
from glbandits.policy_names import as_policy
from glbandits.records import Floats, Ints, Rounds
from glbandits.simulation.loop import play_entry
from glbandits.sparse_policies import sparse_form

AnyEnvironment: TypeAlias = Environment | SparseEnvironment


@dataclass(frozen=True)
class Run:
    """What came of playing one policy with one seed."""

    regret: Floats
    """Cumulative regret at the recorded rounds, (points,)."""
    choices: NDArray[np.int32] | None
    """The arm of every round, (horizon,), if they were kept."""
    seconds: float
    """CPU seconds that the policy itself took: choosing and learning, not making the problem."""


@dataclass(frozen=True, repr=False)
class Simulation(Displayed):
    """What came of playing one policy with several seeds."""

    policy: Policy
    environment: AnyEnvironment
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

    def _values(self) -> dict[str, object]:
        return {
            "policy": self.policy,
            "environment": self.environment,
            "horizon": self.horizon,
            "seeds": len(self.seeds),
            "mean final regret": float(self.final_regret.mean()),
        }

    def plot(self, ax: Any = None, *, label: str | None = None, index: int = 0) -> Any:
        """Draw mean cumulative regret over the rounds, with a band of one standard error.

        Args:
            ax: Matplotlib axes; by default those of a new figure.
            label: name in the legend; by default that of the policy.
            index: selects colour and line style, for several simulations on the same axes.

        Returns:
            The axes.
        """
        axes, mean = new_axes(ax), self.mean
        shown = f"{label or self.policy.name}: {mean[-1]:.1f}"
        draw_curve(axes, self.rounds, mean, self.standard_error, label=shown, index=index)
        axes.set(xlabel="round", ylabel=f"cumulative regret (mean of {len(self.seeds)} seeds, band: 1 s.e.)")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, title="regret at the end", alignment="left")
        return axes


def simulate(
    policy: Policy | str,
    environment: AnyEnvironment,
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
    seed, so their regrets can be compared pairwise. On an environment with sparse rows they are the choices of a Bandit
    with `sparse=True`.

    Args:
        policy: a policy with its settings, or the name of a policy; one that wants the horizon must be given it there.
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
    if check_int("jobs", jobs, at_least=-1) == 0:
        raise InvalidInput("jobs must be a number of runs at once, or -1 for one per core; got 0")
    policy, chosen = as_policy(policy), seed_list(seeds)
    prepare([policy], environment, compiled=compiled)  # compile once, before the runs
    rounds = recorded_rounds(horizon, points)
    runs = Parallel(n_jobs=jobs, prefer="threads")(
        delayed(play_together)(
            [policy],
            environment,
            horizon,
            seed,
            rounds,
            keep_choices=keep_choices,
            compiled=compiled,
            progress=progress,
        )
        for seed in chosen
    )
    played: list[Run] = [run for (run,) in runs]
    return Simulation(
        policy=policy,
        environment=environment,
        horizon=horizon,
        seeds=chosen,
        rounds=rounds,
        regret=np.array([run.regret for run in played]),
        choices=np.array([run.choices for run in played]) if keep_choices else None,
        seconds=np.array([run.seconds for run in played]),
    )


def recorded_rounds(horizon: int, points: int) -> Ints:
    """So many rounds, evenly spread, the last of them the horizon."""
    horizon, points = check_int("horizon", horizon, at_least=1), check_int("points", points, at_least=1)
    first = 1 if points > 1 else horizon
    return np.unique(np.linspace(first, horizon, min(points, horizon)).round().astype(np.int64))


def prepare(policies: Iterable[Policy], environment: AnyEnvironment, *, compiled: bool = True) -> None:
    """Check that these policies can play here, and compile what they need."""
    if not isinstance(environment, Environment) or isinstance(environment, type):
        raise InvalidInput(f"environment must be a problem such as Synthetic(); got {environment!r}")
    for policy in policies:
        form = _form(policy, environment)
        check_policy(form, environment.dim)
        _check_rewards(policy, environment)
        play_entry(form.implementation(environment.dim), find_link(policy.link), environment.noise, compiled)


def _form(policy: Policy, environment: AnyEnvironment) -> Policy:
    """What plays: the sparse form of a policy where arms are sparse rows."""
    is_sparse = isinstance(environment, SparseEnvironment) and environment.sparse
    return sparse_form(check_is_policy(policy), environment.dim) if is_sparse else policy


def play_together(
    policies: Sequence[Policy],
    environment: AnyEnvironment,
    horizon: int,
    seed: int,
    rounds: Ints,
    *,
    lucks: Sequence[int] | None = None,
    keep_choices: bool = False,
    compiled: bool = True,
    progress: Callable[[int], None] | None = None,
) -> list[Run]:
    """Play one seed's rounds with every policy, each as if alone: the rounds are made once, and shared.

    With luck 0, the default, all have the noise of the rounds and the same random numbers, as in `simulate`. Another
    number gives a policy noise and random numbers of its own, on the same arms. `progress` is called with the number of
    rounds just played, summed over policies.
    """
    players = [
        _Player(policy, environment, horizon, seed, luck, rounds, keep_choices, compiled)
        for policy, luck in zip(policies, lucks or [0] * len(policies), strict=True)
    ]
    played = 0
    for piece in environment.rounds(horizon, seed):
        dim = piece.dim if isinstance(piece, SparseRounds) else piece.arms.shape[2]
        if dim != environment.dim or not 0 < len(piece) <= horizon - played:
            raise InvalidInput(
                f"rounds must yield {horizon} rounds of {environment.dim} features, in pieces that are not empty; "
                f"got {len(piece)} rounds of {dim} features after {played} rounds"
            )
        best = piece.best()
        for player in players:
            player.play(piece, best)
            if progress is not None:
                progress(len(piece))
        played += len(piece)
    if played != horizon:
        raise InvalidInput(f"rounds must yield {horizon} rounds; got {played}")
    return [Run(player.regret, player.choices, player.seconds) for player in players]


class _Player:
    """A policy in the middle of a run."""

    def __init__(
        self,
        policy: Policy,
        environment: AnyEnvironment,
        horizon: int,
        seed: int,
        luck: int,
        rounds: Ints,
        keep_choices: bool,
        compiled: bool,
    ) -> None:
        dim, self._policy = environment.dim, policy
        self._noise = environment.noise
        self._own_noise = np.random.default_rng([seed, luck]) if luck else None
        form = _form(policy, environment)
        self._play = play_entry(form.implementation(dim), find_link(policy.link), environment.noise, compiled)
        self._state, self._settings, self._rng = form.init(dim), form.packed_settings(dim), generator(seed, luck)
        self._rounds, self._played, self._total = rounds, 0, 0.0
        self.regret = np.empty(len(rounds))
        self.choices = np.empty(horizon, dtype=np.int32) if keep_choices else None
        self.seconds = 0.0

    def play(self, piece: Rounds | SparseRounds, best: Floats) -> None:
        regret, choices = np.empty(len(piece)), np.empty(len(piece), dtype=np.int64)
        noise = piece.noise if self._own_noise is None else self._noise.draw(self._own_noise, len(piece))
        arms = (piece.starts, *piece.arms) if isinstance(piece, SparseRounds) else (piece.arms,)
        start = time.thread_time()
        with convert_index_errors(self._policy, "the simulation"):
            self._state = self._play(
                self._state, self._settings, self._rng, *arms, piece.counts, piece.expected, piece.values, best,
                noise, self._total, choices, regret,
            )  # fmt: skip
        self.seconds += time.thread_time() - start
        end = self._played + len(piece)
        here = slice(*np.searchsorted(self._rounds, [self._played + 1, end + 1]))
        self.regret[here] = regret[self._rounds[here] - 1 - self._played]
        if self.choices is not None:
            self.choices[self._played : end] = choices
        self._played, self._total = end, float(regret[-1])


def _check_rewards(policy: Policy, environment: AnyEnvironment) -> None:
    link, noise = find_link(policy.link), environment.noise
    if not (link.lowest_reward <= noise.lowest_reward and noise.highest_reward <= link.highest_reward):
        raise InvalidInput(
            f"{policy.name} with the {link.name} link takes rewards from {link.lowest_reward:g} to "
            f"{link.highest_reward:g}; {noise.name} rewards go from {noise.lowest_reward:g} to "
            f"{noise.highest_reward:g}. Give the policy a link for them"
        )
