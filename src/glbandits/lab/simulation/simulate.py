"""Play policies against an environment, for many seeds."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from glbandits.common.arrays import Floats, Ints
from glbandits.common.display.displayed import Displayed
from glbandits.common.display.progress_lines import progress_lines
from glbandits.common.errors import InvalidInput, check_int
from glbandits.common.parallel import run_parallel, worker_count
from glbandits.compilation.entry_point import compile_all, without_compilation
from glbandits.compilation.recipe import Job
from glbandits.lab.environments import Environment, Rounds
from glbandits.lab.environments.rounds import (
    check_environment,
    check_is_repeatable,
    checked_rounds,
    has_payoffs,
    is_sparse,
    regret_name,
)
from glbandits.lab.simulation.agent_player import AgentPlayer, check_agents_can_play
from glbandits.lab.simulation.play_recipes import play_entry, play_recipe
from glbandits.lab.simulation.run_record import RunRecord
from glbandits.maths.links import find_link
from glbandits.maths.philox import generator, seed_list
from glbandits.policies.agents import AgentFactory, PolicyLike, PolicyOrAgent
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import convert_index_errors
from glbandits.policies.contract.decisions import check_has_scores
from glbandits.policies.contract.policy_checks import check_can_run, check_is_policy
from glbandits.policies.parsing import as_policy_or_agent
from glbandits.policies.sparse_forms import sparse_form


@dataclass(frozen=True)
class Run:
    """The result of playing one policy with one seed."""

    regret: Floats
    """Cumulative regret at the recorded rounds, (points,)."""
    choices: NDArray[np.int32] | None
    """The arm of every round, (horizon,); None without `keep_choices`."""
    seconds: float
    """CPU seconds of choosing and learning, without those of generating the rounds."""
    state: Floats | None
    """The state of the policy after the last round: everything that it keeps; None without `keep_state`."""


@dataclass(frozen=True, repr=False)
class Simulation(Displayed):
    """The result of playing one policy with several seeds."""

    policy: PolicyOrAgent
    environment: Environment
    horizon: int
    seeds: tuple[int, ...]
    rounds: Ints
    """The rounds at which regret was recorded, (points,): 1-based, the last is the horizon."""
    regret: Floats
    """Cumulative regret, (seeds, points)."""
    choices: NDArray[np.int32] | None
    """The arm of every round, (seeds, horizon); None without `keep_choices`."""
    seconds: Floats
    """CPU seconds of choosing and learning, (seeds,), without those of generating the rounds."""

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
            f"mean final {regret_name(self.environment)}": float(self.final_regret.mean()),
        }

    def plot(self) -> Any:
        """Return an Altair chart of mean cumulative regret over the rounds, with a band of one standard error."""
        return regret_chart({self.policy.name: self})


def regret_chart(results: Mapping[str, Simulation], title: str = "") -> Any:
    """Return a chart of the mean cumulative regret of each simulation, with bands of one standard error."""
    from glbandits.common.display.charts import Curve, curves_chart, finish

    curves = [
        Curve(f"{label}: {result.mean[-1]:.1f}", result.rounds, result.mean, result.standard_error)
        for label, result in results.items()
    ]
    seeds = max(len(result.seeds) for result in results.values())
    regret = regret_name(next(iter(results.values())).environment)
    chart = curves_chart(curves, "round", f"cumulative {regret} (mean of {seeds} seeds, band: 1 s.e.)")
    return finish(chart, title, wrap=70)


def simulate(
    policy: PolicyLike,
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

    A run with seed s makes the same choices as `Bandit(policy, dim, seed=s)` on `environment.rounds(horizon, s)`, and
    the same choices with and without compilation. All policies play the same rounds under the same seed, so their
    regrets can be compared pairwise. On an environment with sparse rows, the choices are those of a Bandit with
    `sparse=True`. If the rounds have values and costs, the choices are those of `Bandit.choose` with them, the policy
    learns the plain reward, and regret is in units of the payoff.

    An agent (`glbandits.Agent`) plays the same rounds, in plain Python, which is slower: its seeds run in processes.

    Args:
        policy: the policy, or its name, or a class or function that makes agents. If a policy has a setting `horizon`,
            set it there too.
        environment: a problem, such as `Synthetic()`, or one with payoffs, such as `WithPayoffs(Synthetic(), ...)`.
        horizon: T, the number of rounds.
        seeds: the seeds, or their number: n means 0 to n-1.
        jobs: the number of seeds that run in parallel; -1 for one per core. They run in threads, because compiled
            code releases the GIL; `joblib.parallel_config` chooses another backend. Agents always run in processes.
        points: the maximum number of rounds at which regret is recorded.
        keep_choices: store the arm of every round. If False, memory does not grow with the horizon.
        compiled: if False, the same functions run as plain Python, some thousand times slower.
        progress: called with the number of rounds just played, from the thread that played them. Without it, lines
            on stderr show a person at a terminal or a notebook how far an agent is.

    >>> from glbandits import Uniform
    >>> from glbandits.lab.environments import Synthetic
    >>> result = simulate(Uniform(), Synthetic(), horizon=500, seeds=4)
    >>> result.regret.shape, result.choices.shape
    ((4, 500), (4, 500))
    """
    if check_int("jobs", jobs, at_least=-1) == 0:
        raise InvalidInput("jobs must be a number of parallel runs, or -1 for one per core; got 0", field="jobs")
    given, seed_numbers = as_policy_or_agent(policy), seed_list(seeds)
    rounds = recorded_rounds(horizon, points)
    with nullcontext() if compiled else without_compilation():
        prepare([given], environment, compiled=compiled)  # compile once, before the runs
        check_is_repeatable(environment, horizon, seed_numbers[0])
    play = partial(
        _play_alone, given, environment, horizon, rounds=rounds, keep_choices=keep_choices, compiled=compiled
    )
    if isinstance(given, AgentFactory):
        results = _play_in_processes(play, given, seed_numbers, horizon, jobs, progress)
    else:
        results = Parallel(n_jobs=jobs, prefer="threads")(
            delayed(play)(seed, progress=progress) for seed in seed_numbers
        )
    return Simulation(
        policy=given,
        environment=environment,
        horizon=horizon,
        seeds=seed_numbers,
        rounds=rounds,
        regret=np.array([run.regret for run in results]),
        choices=np.array([run.choices for run in results]) if keep_choices else None,
        seconds=np.array([run.seconds for run in results]),
    )


def _play_alone(
    policy: PolicyOrAgent, environment: Environment, horizon: int, seed: int, *, rounds: Ints, **settings: Any
) -> Run:
    (run,) = play_together([policy], environment, horizon, seed, rounds, **settings)
    return run


def _play_in_processes(
    play: Callable[..., Run],
    agents: AgentFactory,
    seeds: Sequence[int],
    horizon: int,
    jobs: int,
    progress: Callable[[int], None] | None,
) -> list[Run]:
    """Play each seed with a new agent: in this process if there is one job or one seed, else in worker processes."""
    jobs, played, total = min(worker_count(jobs), len(seeds)), 0, len(seeds) * horizon

    def report(rounds: int) -> None:
        nonlocal played
        played += rounds
        if progress is not None:
            progress(rounds)

    def describe() -> str:
        return f"{agents.name} plays as plain Python: {played:,} of {total:,} rounds"

    runs: dict[int, Run] = {}
    with nullcontext() if progress is not None else progress_lines(describe):
        play = partial(play, progress=report) if jobs == 1 else play
        for index, run in run_parallel(play, seeds, jobs=jobs):
            runs[index] = run
            if jobs > 1:
                report(horizon)
    return [runs[index] for index in range(len(seeds))]


def recorded_rounds(horizon: int, points: int) -> Ints:
    """Return at most `points` evenly spaced round numbers, from 1 to the horizon. The last one is the horizon."""
    horizon, points = check_int("horizon", horizon, at_least=1), check_int("points", points, at_least=1)
    first = 1 if points > 1 else horizon
    return np.unique(np.linspace(first, horizon, min(points, horizon)).round().astype(np.int64))


def prepare(policies: Iterable[PolicyOrAgent], environment: Environment, *, compiled: bool = True) -> None:
    """Raise InvalidInput if a policy cannot play in this environment, and compile the code that the policies need."""
    check_environment(environment)
    jobs = []
    for policy in policies:
        if isinstance(policy, AgentFactory):
            check_agents_can_play(policy, environment)
        else:
            jobs.append(play_job(policy, environment))
    if compiled:
        compile_all(jobs)


def play_job(policy: Policy, environment: Environment) -> Job:
    """Return the entry point that plays, for `compile_all`. Raises InvalidInput if the policy cannot play here."""
    form = _form(policy, environment)
    check_can_run(form, environment.dim)
    _check_rewards(policy, environment)
    payoffs = has_payoffs(environment)
    if payoffs:
        check_has_scores(form.implementation(environment.dim), "payoffs")
    return play_recipe, form.implementation(environment.dim), find_link(policy.link), environment.noise, payoffs


def _form(policy: Policy, environment: Environment) -> Policy:
    """Return the form of the policy that plays: its sparse form if the arms are sparse rows."""
    return sparse_form(check_is_policy(policy), environment.dim) if is_sparse(environment) else policy


def play_together(
    policies: Sequence[PolicyOrAgent],
    environment: Environment,
    horizon: int,
    seed: int,
    rounds: Ints,
    *,
    noise_seeds: Sequence[int] | None = None,
    keep_choices: bool = False,
    keep_state: bool = False,
    compiled: bool = True,
    progress: Callable[[int], None] | None = None,
) -> list[Run]:
    """Play the rounds of one seed with several policies. The rounds are generated once; policies do not interact.

    Args:
        policies: the policies.
        environment: the problem.
        horizon: the number of rounds.
        seed: of the rounds.
        rounds: the rounds at which regret is recorded, as from `recorded_rounds`.
        noise_seeds: one for each policy. With 0, the default, a policy has the noise of the rounds and the random
            numbers of the seed, as in `simulate`. Another number gives the policy its own noise and random numbers, on
            the same arms.
        keep_choices: store the arm of every round.
        keep_state: store the final state of every policy.
        compiled: if False, play in plain Python.
        progress: called with the number of rounds just played, summed over policies.
    """
    with nullcontext() if compiled else without_compilation():
        players: list[_Player | AgentPlayer] = []
        for policy, noise_seed in zip(policies, noise_seeds or [0] * len(policies), strict=True):
            record = RunRecord(rounds, horizon, keep_choices)
            if isinstance(policy, AgentFactory):
                players.append(AgentPlayer(policy, environment, seed, noise_seed, record))
            else:
                players.append(_Player(policy, environment, seed, noise_seed, record, compiled))
        for chunk in checked_rounds(environment, horizon, seed):
            best = chunk.best()
            for player in players:
                player.play(chunk, best, progress)
    return [
        Run(player.record.regret, player.record.choices, player.seconds, player.state if keep_state else None)
        for player in players
    ]


class _Player:
    """A policy with its state in the middle of a run."""

    def __init__(
        self,
        policy: Policy,
        environment: Environment,
        seed: int,
        noise_seed: int,
        record: RunRecord,
        compiled: bool,
    ) -> None:
        dim, self._policy = environment.dim, policy
        self._noise = environment.noise
        self._own_noise = np.random.default_rng([seed, noise_seed]) if noise_seed else None
        form = _form(policy, environment)
        link, payoffs = find_link(policy.link), has_payoffs(environment)
        self._play = play_entry(form.implementation(dim), link, environment.noise, compiled, payoffs=payoffs)
        self.state, self._settings, self._rng = form.init(dim), form.packed_settings(dim), generator(seed, noise_seed)
        self.record, self.seconds = record, 0.0

    def play(self, chunk: Rounds, best: Floats, progress: Callable[[int], None] | None = None) -> None:
        regret, choices = np.empty(len(chunk)), np.empty(len(chunk), dtype=np.int64)
        noise = chunk.noise if self._own_noise is None else self._noise.draw(self._own_noise, len(chunk))
        arms = chunk.rows, chunk.starts
        start = time.thread_time()
        with convert_index_errors(self._policy, "the simulation"):
            self.state = self._play(
                self.state, self._settings, self._rng, *arms, chunk.counts, chunk.expected, chunk.payoffs, best,
                noise, self.record.total_regret, choices, regret,
            )  # fmt: skip
        self.seconds += time.thread_time() - start
        self.record.add(choices, regret)
        if progress is not None:
            progress(len(chunk))


def _check_rewards(policy: Policy, environment: Environment) -> None:
    link, noise = find_link(policy.link), environment.noise
    if not (link.lowest_reward <= noise.lowest_reward and noise.highest_reward <= link.highest_reward):
        raise InvalidInput(
            f"{policy.name} with the {link.name} link accepts rewards from {link.lowest_reward:g} to "
            f"{link.highest_reward:g}, but {noise.name} rewards range from {noise.lowest_reward:g} to "
            f"{noise.highest_reward:g}. Set another link of the policy"
        )
