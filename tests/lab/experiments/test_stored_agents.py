"""Agents in stored experiments: in experiment files, in the result store and on the command line."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from glbandits import InvalidInput, Uniform
from glbandits.lab import Synthetic, simulate
from glbandits.lab.experiments.missing_runs import run_missing
from glbandits.lab.experiments.result_store import ResultStore
from glbandits.lab.experiments.run_spec import IdentifiedProblem, RunSpec
from glbandits.lab.experiments.user_experiment import read_experiments
from glbandits.policies.agents import AgentFactory, PolicyOrAgent
from tests.cli.in_process import glb
from tests.policies.example_agents import RidgeAgent

PROBLEM = Synthetic(dim=3, arms=5)
IDENTIFIED = IdentifiedProblem.of(PROBLEM, 40, 0)
SOURCE = """
import numpy as np
from pathlib import Path

class Mine:
    def __init__(self, dim, noise=0.1, horizon=None):
        self.gram, self.sums, self.noise, self.horizon = np.eye(dim), np.zeros(dim), noise, horizon

    def choose(self, arms, rng):
        theta = np.linalg.solve(self.gram, self.sums)
        return int(np.argmax(arms @ theta)) if rng.random() > self.noise else int(rng.integers(len(arms)))

    def learn(self, x, reward):
        self.gram += np.outer(x, x)
        self.sums += reward * x

class Fails(Mine):
    rounds = 0

    def learn(self, x, reward):
        self.rounds += 1
        if self.rounds == 10 and Path("fails").exists():
            raise RuntimeError("no more")

number = 3
"""
FILE = """
horizon = 40
repeats = 2
fresh = 3
[environment]
dim = 3
arms = 5
[[policy]]
kind = "uniform"
[[policy]]
kind = "mine:Mine"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "mine.py").write_text(SOURCE)
    (tmp_path / "own.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("mine", None)


def runs_of(policy: PolicyOrAgent, seeds: int = 3) -> list[RunSpec]:
    return [RunSpec(policy, IDENTIFIED, 40, seed) for seed in range(seeds)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_stored_runs_equal_simulate_and_are_not_repeated(tmp_path: Path, jobs: int) -> None:
    specs = runs_of(AgentFactory(RidgeAgent)) + runs_of(Uniform())
    store = ResultStore(tmp_path)
    run_missing(specs, store, jobs=jobs)
    alone = simulate(RidgeAgent, PROBLEM, 40, 3, jobs=1, points=200)
    np.testing.assert_array_equal([store[spec].regret for spec in specs[:3]], alone.regret)
    assert ResultStore(tmp_path).missing(specs) == []


def test_key_of_a_run_depends_on_code_and_settings() -> None:
    def made(bonus: float) -> type[RidgeAgent]:
        class Made(RidgeAgent):
            def learn(self, x: object, reward: float) -> None:
                super().learn(x, reward + bonus)

        return Made

    makers = [AgentFactory(made(0.0)), AgentFactory(made(1.0)), AgentFactory(made(0.0), {"noise": 0.2})]
    assert len({runs_of(maker)[0].key for maker in makers}) == 3
    assert runs_of(AgentFactory(made(0.0)))[0].key == runs_of(makers[0])[0].key


def test_change_in_the_same_process_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(RidgeAgent):
        share = 0.1

    settings = {"noise": [0.1]}
    key = runs_of(AgentFactory(Mine, settings))[0].key
    assert runs_of(AgentFactory(Mine, settings))[0].key == key
    monkeypatch.setattr(Mine, "share", 0.2)
    assert runs_of(AgentFactory(Mine, settings))[0].key != key
    monkeypatch.undo()
    settings["noise"][0] = 0.3
    assert runs_of(AgentFactory(Mine, settings))[0].key != key


def test_settings_may_be_arrays() -> None:
    makers = [AgentFactory(RidgeAgent, {"noise": np.full(2, noise)}) for noise in (0.1, 0.1, 0.2)]
    assert makers[0] == makers[1] != makers[2]
    assert runs_of(makers[0])[0].key == runs_of(makers[1])[0].key != runs_of(makers[2])[0].key


def test_own_noise_is_that_of_the_settings() -> None:
    spec = runs_of(AgentFactory(RidgeAgent))[0].with_own_noise()
    assert spec.noise_seed > 0
    assert spec == runs_of(AgentFactory(RidgeAgent))[0].with_own_noise()


def test_experiment_file_names_agents_with_settings_and_grid(folder: Path) -> None:
    path = folder / "own.toml"
    path.write_text(FILE + "[policy.grid]\nnoise = [0.0, 0.2]\n")
    [experiment] = read_experiments([path])
    entry = experiment.policies[1]
    assert entry.label == "Mine"
    settings = [{"noise": noise, "horizon": 40} for noise in (0.0, 0.2)]
    assert [policy.get_params() for policy in entry.policies()] == settings


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("[policy.settings]\nnose = 1", "'nose'; did you mean 'noise'"),
        ('[[policy]]\nkind = "mine:number"', "mine:number' must name a subclass of .*Policy, or a class or function"),
        ('[[policy]]\nkind = "mine:Miine"', "unknown name in mine.py 'Miine'; did you mean 'Mine'"),
        ('[[policy]]\nkind = "mine:Path"', r"Path must have the methods choose\(arms, rng\) and learn"),
    ],
)
def test_wrong_agents_in_a_file_are_refused(folder: Path, lines: str, message: str) -> None:
    (folder / "own.toml").write_text(FILE + lines)
    with pytest.raises(ValueError, match=message):
        read_experiments([folder / "own.toml"])


def test_compare_command_plays_agents_once(folder: Path) -> None:
    words = ("compare", "own.toml", "--jobs", "1", "--out", "out")
    run = glb(*words, folder=folder)
    assert run.returncode == 0, run.stderr
    assert "Mine" in run.stdout
    assert "Mine" in (folder / "out/report.html").read_text()
    files = set((folder / "out/store").iterdir())
    assert glb(*words, folder=folder).returncode == 0
    assert set((folder / "out/store").iterdir()) == files
    (folder / "mine.py").write_text(SOURCE.replace("reward * x", "reward * x * 2"))
    sys.modules.pop("mine")
    assert glb(*words, folder=folder).returncode == 0
    assert len(set((folder / "out/store").iterdir())) > len(files)


def test_failing_agent_ends_the_command_and_keeps_finished_runs(folder: Path) -> None:
    (folder / "own.toml").write_text(FILE.replace("mine:Mine", "mine:Fails").replace("fresh = 3", "fresh = 1"))
    words = ("compare", "own.toml", "--jobs", "1", "--out", "out")
    assert glb(*words, folder=folder).returncode == 0
    kept = {path.name for path in (folder / "out/store").iterdir()}
    (folder / "own.toml").write_text(FILE.replace("mine:Mine", "mine:Fails"))
    (folder / "fails").touch()
    run = glb(*words, folder=folder)
    assert run.returncode == 2
    assert re.search(r"agent Fails failed in round 10 with seed \d+: learn raised RuntimeError: no more", run.stderr)
    assert "Traceback" not in run.stderr
    assert kept <= {path.name for path in (folder / "out/store").iterdir()}


class FailsAtOnce(RidgeAgent):
    def learn(self, _x: object, _reward: float) -> None:
        raise RuntimeError("no more")


@pytest.mark.filterwarnings("ignore:.* changed its class")
def test_run_that_fails_loses_no_other_run(tmp_path: Path) -> None:
    made: list[int] = []

    def third_fails(dim: int) -> RidgeAgent:
        made.append(dim)
        return FailsAtOnce(dim) if len(made) == 3 else RidgeAgent(dim)

    specs, store = runs_of(AgentFactory(third_fails), seeds=4), ResultStore(tmp_path / "store")
    with pytest.raises(InvalidInput, match="agent third_fails failed in round 1 with seed 2"):
        run_missing(specs, store, jobs=1)
    assert [spec in store for spec in specs] == [True, True, False, False]


def test_simulate_command_plays_agents(folder: Path) -> None:
    options = (
        "--horizon",
        "30",
        "--seeds",
        "2",
        "--environment",
        "synthetic:dim=3,arms=4",
        "--jobs",
        "1",
        "--out",
        "out",
    )
    run = glb("simulate", "--policy", "mine:Mine:noise=0.3", "--policy", "uniform", *options, folder=folder)
    assert run.returncode == 0, run.stderr
    assert "mine:Mine:noise=0.3" in run.stdout
    run = glb("simulate", "--policy", "mine:Mine:nose=0.3", *options, folder=folder)
    assert run.returncode == 2
    assert "unknown setting of Mine 'nose'; did you mean 'noise'" in run.stderr
