"""Play policies against an environment, for many seeds."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.display.progress_lines import progress_lines
from glbandits.common.errors import InvalidInput, check_int
from glbandits.common.parallel import check_engine, is_one_process, run_parallel
from glbandits.compilation.entry_point import compile_all, without_compilation
from glbandits.compilation.recipe import Job
from glbandits.lab.environments import Environment, Rounds
from glbandits.lab.environments.noise import own_noise
from glbandits.lab.environments.rounds import (
    check_environment,
    check_is_repeatable,
    checked_rounds,
    has_payoffs,
    is_sparse,
)
from glbandits.lab.simulation.agent_player import AgentPlayer, check_agents_can_play
from glbandits.lab.simulation.play_recipes import play_entry, play_recipe
from glbandits.lab.simulation.run_record import RunRecord
from glbandits.lab.simulation.simulated_runs import Run, Simulation
from glbandits.maths.links import find_link, own_link
from glbandits.maths.philox import generator, seed_list
from glbandits.policies.agents import AgentFactory, PolicyLike, PolicyOrAgent, warn_if_agents_change
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import convert_index_errors
from glbandits.policies.contract.decisions import check_has_scores
from glbandits.policies.contract.policy_checks import check_can_run, check_is_policy
from glbandits.policies.parsing import as_policy_or_agent
from glbandits.policies.sparse_forms import sparse_form


def simulate(
    policy: PolicyLike,
    environment: Environment,
    horizon: int,
    seeds: int | Iterable[int],
    *,
    jobs: int = -1,
    engine: str = "local",
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
        engine: "local" for the cores of this machine, "ray" for a Ray cluster; see `common.parallel`.
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
    check_engine(engine, jobs)
    settings: dict[str, Any] = {"jobs": jobs, "engine": engine, "keep_choices": keep_choices, "compiled": compiled}
    given, rounds = [as_policy_or_agent(policy)], recorded_rounds(horizon, points)
    (result,) = simulate_all(given, environment, horizon, seed_list(seeds), rounds, progress=progress, **settings)
    return result


def simulate_all(
    policies: Sequence[PolicyOrAgent],
    environment: Environment,
    horizon: int,
    seeds: Sequence[int],
    rounds: Ints,
    *,
    jobs: int = -1,
    engine: str = "local",
    keep_choices: bool = False,
    compiled: bool = True,
    progress: Callable[[int], None] | None = None,
) -> list[Simulation]:
    """Play policies on the same seeds. The rounds of a seed are generated once, and all policies play them.

    `rounds` are those at which regret is recorded; `simulate` documents the other parameters.
    """
    with nullcontext() if compiled else without_compilation():
        prepare(policies, environment, compiled=compiled)  # compile once, before the runs
        check_is_repeatable(environment, horizon, seeds[0])
    regret = np.empty((len(policies), len(seeds), len(rounds)))
    choices = np.empty((len(policies), len(seeds), horizon), dtype=np.int32) if keep_choices else None
    seconds = np.empty((len(policies), len(seeds)))
    play = partial(
        play_together, policies, environment, horizon, rounds=rounds, keep_choices=keep_choices, compiled=compiled
    )
    for index, runs in _play_seeds(play, policies, seeds, horizon, jobs, engine, progress):
        for number, run in enumerate(runs):
            regret[number, index], seconds[number, index] = run.regret, run.seconds
            if choices is not None and run.choices is not None:
                choices[number, index] = run.choices
    return [
        Simulation(
            policy=policy,
            environment=environment,
            horizon=horizon,
            seeds=tuple(seeds),
            rounds=rounds,
            regret=regret[number],
            choices=None if choices is None else choices[number],
            seconds=seconds[number],
        )
        for number, policy in enumerate(policies)
    ]


def _play_seeds(
    play: Callable[..., list[Run]],
    policies: Sequence[PolicyOrAgent],
    seeds: Sequence[int],
    horizon: int,
    jobs: int,
    engine: str,
    progress: Callable[[int], None] | None,
) -> Iterator[tuple[int, list[Run]]]:
    """Yield the index of each seed with its runs: from threads, or from processes if there is an agent or Ray."""
    agents = [policy.name for policy in policies if isinstance(policy, AgentFactory)]
    if engine == "local" and not agents:
        yield from run_parallel(partial(play, progress=progress), seeds, jobs=jobs, threads=True)
        return
    is_here, played, each = is_one_process(jobs, engine, len(seeds)), 0, horizon * len(policies)

    def report(rounds: int) -> None:
        nonlocal played
        played += rounds
        if progress is not None:
            progress(rounds)

    def describe() -> str:
        names, total = ", ".join(agents), each * len(seeds)
        return f"{names} {'play' if len(agents) > 1 else 'plays'} as plain Python: {played:,} of {total:,} rounds"

    with progress_lines(describe) if agents and progress is None else nullcontext():
        play = partial(play, progress=report) if is_here else play
        for index, runs in run_parallel(play, seeds, jobs=jobs, engine=engine):
            yield index, runs
            if not is_here:
                report(each)


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
    kind, noise = form.implementation(environment.dim), own_noise(environment.noise)
    return play_recipe, kind, own_link(policy.link), noise, payoffs


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
    with nullcontext() if compiled else without_compilation(), warn_if_agents_change(policies):
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
                self._noise.number, noise, self.record.total_regret, choices, regret,
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
