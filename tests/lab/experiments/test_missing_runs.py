import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from glbandits import EpsilonGreedy, InvalidInput, Policy, SgdTs, UnknownName
from glbandits.lab import Synthetic, compare, simulate
from glbandits.lab.experiments.missing_runs import make_tasks, run_missing
from glbandits.lab.experiments.result_store import ResultStore
from glbandits.lab.experiments.run_spec import IdentifiedProblem, RunSpec
from tests.policies.example_agents import RidgeAgent

PROBLEM = Synthetic(dim=3, arms=5)
IDENTIFIED = IdentifiedProblem.of(PROBLEM, 120, 0)
POLICIES: list[Policy] = [SgdTs(block_length=10), SgdTs(block_length=15), EpsilonGreedy()]
SPECS = [RunSpec(policy, IDENTIFIED, 120, seed) for policy in POLICIES for seed in range(4)]


def test_each_run_is_in_one_task_of_common_rounds() -> None:
    cut = make_tasks(SPECS)
    assert sorted(spec.key for task in cut for spec in task) == sorted(spec.key for spec in SPECS)
    assert all(len({spec.seed for spec in task}) == 1 for task in cut)


@pytest.mark.parametrize("jobs", [1, 2])
def test_runs_equal_simulate_and_are_not_repeated(jobs: int, tmp_path: Path) -> None:
    store, calls = ResultStore(tmp_path), []
    run_missing(SPECS, store, jobs=jobs, progress=lambda _, done, total: calls.append((done, total)))
    for policy in POLICIES:
        alone = simulate(policy, PROBLEM, 120, range(4), points=200)
        assert alone.choices is not None
        for seed in range(4):
            run = store[RunSpec(policy, IDENTIFIED, 120, seed)]
            np.testing.assert_array_equal(run.regret, alone.regret[seed])
            np.testing.assert_array_equal(run.pulls, np.bincount(alone.choices[seed]))
    assert calls[0][0] == 0
    assert calls[-1][0] == pytest.approx(calls[-1][1])
    files = set(tmp_path.iterdir())
    run_missing(SPECS, ResultStore(tmp_path), jobs=jobs)
    assert set(tmp_path.iterdir()) == files


def test_invalid_engines_and_jobs_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="unknown engine 'rai'; did you mean 'ray'"):
        run_missing(SPECS, ResultStore(tmp_path), engine="rai")
    with pytest.raises(InvalidInput, match="jobs must be a number of parallel workers, or -1"):
        run_missing(SPECS, ResultStore(tmp_path), jobs=0)


KILLED = """
import sys
from pathlib import Path
from tests.lab.experiments.test_missing_runs import SPECS
from glbandits.lab.experiments import missing_runs
from glbandits.lab.experiments.result_store import ResultStore
missing_runs.TASK_SECONDS = 1e-9  # a task and a file for each run
missing_runs.run_missing(SPECS, ResultStore(Path(sys.argv[1])), jobs=int(sys.argv[2]))
"""


@pytest.mark.system
@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_command_continues_where_it_stopped(jobs: int, tmp_path: Path) -> None:
    whole = ResultStore(tmp_path / "whole")
    run_missing(SPECS, whole, jobs=1)
    folder = tmp_path / "killed"
    for after in (1, 4, 8):  # killed when so many files are there
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder), str(jobs)], start_new_session=True)
        while process.poll() is None and len(list(folder.glob("*.parquet"))) < after:
            time.sleep(0.001)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    store = ResultStore(folder)
    done = len(store)
    assert done > 0
    run_missing(SPECS, store, jobs=1)
    assert len(store) == len(SPECS)
    for spec in SPECS:
        np.testing.assert_array_equal(store[spec].regret, whole[spec].regret)


@pytest.mark.system
def test_ray_gives_the_same_results(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="Ray is in the extra [ray]")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        assert len(ray.nodes()) == 2
        run_missing(SPECS, ResultStore(tmp_path / "ray"), engine="ray")
        simulated = simulate(POLICIES[0], PROBLEM, 120, 4, engine="ray")
        compared = compare(["uniform", RidgeAgent], PROBLEM, 120, 3, engine="ray")
    finally:
        ray.shutdown()
        cluster.shutdown()
    run_missing(SPECS, ResultStore(tmp_path / "local"), jobs=1)
    on_ray, local = ResultStore(tmp_path / "ray"), ResultStore(tmp_path / "local")
    assert len(on_ray) == len(local) == len(SPECS)
    for spec in SPECS:
        np.testing.assert_array_equal(on_ray[spec].regret, local[spec].regret)
        np.testing.assert_array_equal(on_ray[spec].pulls, local[spec].pulls)
    here = simulate(POLICIES[0], PROBLEM, 120, 4, jobs=1)
    np.testing.assert_array_equal(simulated.regret, here.regret)
    np.testing.assert_array_equal(simulated.choices, here.choices)
    for label, result in compare(["uniform", RidgeAgent], PROBLEM, 120, 3, jobs=1).items():
        np.testing.assert_array_equal(compared[label].regret, result.regret)
