"""A stored result is never that of another problem, whatever the environment of the user is made of."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glbandits import Uniform
from glbandits.common.arrays import Floats
from glbandits.lab import NOISES, Noise, Rounds
from glbandits.lab.experiments.experiment import Experiment, PolicyEntry
from glbandits.lab.experiments.protocols import ExperimentRunner
from glbandits.lab.experiments.result_store import ResultStore
from glbandits.lab.experiments.run_spec import IdentifiedProblem


def rounds_of(means: Floats, horizon: int, seed: int, noise: Noise) -> Rounds:
    rows = np.random.default_rng(seed).integers(0, len(means), horizon)
    expected = np.stack([means[rows], np.full(horizon, 0.5)], axis=1)
    return Rounds(
        arms=np.tile(np.eye(2), (horizon, 1, 1)),
        counts=np.full(horizon, 2),
        expected=expected,
        noise=noise.draw(np.random.default_rng(seed), horizon),
    )


@dataclass
class Table:
    """An environment with a large array, whose repr is shortened in the middle."""

    means: Floats
    noise: Noise = NOISES["bernoulli"]
    dim: int = 2

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        yield rounds_of(self.means, horizon, seed, self.noise)


class Plain:
    """The same as a plain class that holds anything."""

    dim, noise = 2, NOISES["bernoulli"]

    def __init__(self, held: Any = None, means: Callable[[], Floats] = lambda: np.full(3, 0.3)) -> None:
        self.held, self.means = held, means

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        yield rounds_of(self.means(), horizon, seed, self.noise)


def identity(environment: Any) -> str:
    return IdentifiedProblem.of(environment, 20, 1).identity


def final_regret(environment: Any, folder: Path) -> float:
    experiment = Experiment(
        name="own",
        title="Own",
        environment=environment,
        horizon=200,
        policies=[PolicyEntry(Uniform, {"link": "identity"})],
        repeats=[1, 2],
        fresh=[11, 12, 13],
    )
    (result,) = ExperimentRunner(ResultStore(folder), jobs=1).run([experiment], ["fresh"])
    return float(result.protocols[0].best.final.mean())


def test_arrays_that_differ_in_the_middle_are_different_problems(tmp_path: Path) -> None:
    easy, hard = Table(np.full(5000, 0.5)), Table(np.full(5000, 0.5))
    hard.means[100:4900] = 0.0
    assert repr(easy) == repr(hard)
    before = final_regret(easy, tmp_path)
    assert final_regret(hard, tmp_path) > before + 10
    assert final_regret(Table(np.full(5000, 0.5)), tmp_path) == before
    assert len(ResultStore(tmp_path)) == 2 * (2 + 3)


class Lazy(Plain):
    """An environment that keeps what it computed, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.kept: Floats | None = None

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        self.calls += 1
        if self.kept is None:
            self.kept = np.full(3, 0.3)
        yield rounds_of(self.kept, horizon, seed, self.noise)


def test_environment_that_changes_itself_is_identified_before_it_plays(tmp_path: Path) -> None:
    first = final_regret(Lazy(), tmp_path)
    stored = len(ResultStore(tmp_path))
    assert final_regret(Lazy(), tmp_path) == first
    assert len(ResultStore(tmp_path)) == stored  # nothing was played again


@dataclass(frozen=True)
class ReadsFile:
    """An environment whose rounds read a file each time."""

    path: str
    dim: int = 2
    noise: Noise = field(default_factory=lambda: NOISES["bernoulli"])

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        yield rounds_of(np.loadtxt(self.path), horizon, seed, self.noise)


def test_content_of_a_file_that_rounds_read_is_part_of_the_problem(tmp_path: Path) -> None:
    problem, path = ReadsFile(str(tmp_path / "means.txt")), tmp_path / "means.txt"
    np.savetxt(path, [0.4, 0.5, 0.6])
    before = final_regret(problem, tmp_path / "store")
    np.savetxt(path, [0.4, 0.5, 0.9])
    assert final_regret(problem, tmp_path / "store") != before


MODULE = """
import numpy as np
from glbandits.lab import NOISES, Rounds

MEANS = np.full(5000, 0.3)


def shape(means):
    return means


class Drift:
    dim, noise = 2, NOISES["bernoulli"]

    def rounds(self, horizon, seed):
        rows = np.random.default_rng(seed).integers(0, 5000, horizon)
        expected = np.stack([shape(MEANS)[rows], np.full(horizon, 0.5)], axis=1)
        yield Rounds(np.tile(np.eye(2), (horizon, 1, 1)), np.full(horizon, 2), expected, np.zeros(horizon))
"""


def test_array_of_a_module_that_a_program_changes_is_part_of_the_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_changed.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("own_changed")
    before = final_regret(module.Drift(), tmp_path / "store")
    module.MEANS[100:4900] = 0.0
    assert final_regret(module.Drift(), tmp_path / "store") > before + 5


def test_class_of_a_notebook_is_another_problem_after_an_edit(tmp_path: Path) -> None:
    regrets = []
    for text in (MODULE, MODULE.replace("np.full(5000, 0.3)", "np.full(5000, 0.1)")):
        cell: dict[str, Any] = {"__name__": "__main__"}
        exec(text, cell)
        regrets.append(final_regret(cell["Drift"](), tmp_path))
    assert regrets[1] > regrets[0] + 5
