"""Update the stored results of one problem."""

from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from benchmarks.regret import storage, vowpal
from benchmarks.regret.candidates import FAST, FULL, LESS, SLOW, STUCK_SEEDS, TABLE_SEEDS, TOO_SLOW
from benchmarks.regret.play import Candidate, Setup, find_candidate, play_variants, play_vowpal, tune
from benchmarks.regret.problem import Problem
from glbandits.common.errors import InvalidInput
from glbandits.lab.environments import ClassificationTable
from glbandits.lab.experiments.run_spec import IdentifiedProblem, playing_digest, source_digest
from glbandits.policies import POLICIES

ALL_POLICIES = (*POLICIES, *vowpal.EXPLORERS)


def update(problem: Problem, policies: Sequence[str], folder: Path, jobs: int) -> None:
    """Run the policies whose entries are missing or out of date, and replace the entries.

    Raises InvalidInput if the problem or a policy needs a package that is not installed.
    """
    environment = problem.build(folder)
    setup = Setup(environment, problem.horizon(environment), problem.link, problem.kind, jobs)
    stored = storage.read_keys(folder, problem.name)
    is_table = isinstance(environment, ClassificationTable)
    keys = {name: entry_key(name, setup) for name in policies if name in POLICIES or is_table}
    missing = [name for name, key in keys.items() if stored.get(name) != key]
    if not missing:
        return
    candidates, entries = _candidates([name for name in missing if name in POLICIES], setup, keys)
    seconds = sum(candidate.total_seconds for candidate in candidates)
    print(f"{problem.name}: {len(candidates)} policies, about {seconds:.0f} CPU seconds", flush=True)
    variants, too_slow = tune(candidates, setup)
    entries += [{"policy": name, "reason": reason, "key": keys[name]} for name, reason in too_slow.items()]
    results = play_variants(variants, setup)
    if isinstance(environment, ClassificationTable):
        explorers = [name for name in missing if name in vowpal.EXPLORERS]
        results += play_vowpal(explorers, environment, setup.horizon) if explorers else []
    entries += [storage.entry_of(result, keys[result.policy]) for result in results]
    storage.replace_entries(folder, problem.name, setup.horizon, environment.dim, missing, entries)


def estimate(problem: Problem, policies: Sequence[str], folder: Path) -> dict[str, float]:
    """Return the CPU seconds that a policy would take on a problem, from one run of its default, after compiling."""
    environment = problem.build(folder)
    setup = Setup(environment, problem.horizon(environment), problem.link, problem.kind)
    seconds = dict[str, float]()
    for name in policies:
        if name in POLICIES:
            with suppress(InvalidInput):  # it cannot play, or is too slow
                seconds[name] = find_candidate(name, setup, timed_runs=1).total_seconds
        elif isinstance(environment, ClassificationTable):
            ((_, run),) = vowpal.play([name], environment, setup.horizon, seed=1)
            seconds[name] = run * len(TABLE_SEEDS)
    return seconds


def entry_key(name: str, setup: Setup) -> str:
    """A hash of the code, the problem and the effort.

    An entry with another key is out of date.
    """
    environment = type(setup.environment).__module__
    code = (
        playing_digest(environment, POLICIES[name].__module__)
        if name in POLICIES
        else source_digest(environment, vowpal.__name__)
    )
    effort = (FULL, LESS, STUCK_SEEDS, TABLE_SEEDS, FAST, SLOW, TOO_SLOW)
    problem = IdentifiedProblem.of(setup.environment, setup.horizon, seed=0).identity
    facts = (code, problem, setup.horizon, setup.link, setup.kind, effort)
    return sha256(repr(facts).encode()).hexdigest()[:16]


def _candidates(
    names: Sequence[str], setup: Setup, keys: dict[str, str]
) -> tuple[list[Candidate], list[storage.Entry]]:
    """The policies that can play, and the entries of those that cannot."""
    candidates, absent = list[Candidate](), list[storage.Entry]()
    for name in names:
        try:
            candidates.append(find_candidate(name, setup))
        except InvalidInput as error:
            absent.append({"policy": name, "reason": str(error), "key": keys[name]})
    return candidates, absent
