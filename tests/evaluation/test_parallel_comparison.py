"""Comparisons and tuning in several processes and on Ray give the same bits as in one process."""

import errno
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits import Bandit, InvalidInput, Optimist, UnknownName
from glbandits.common.parallel import run_parallel
from glbandits.evaluation import Columns, LoggedData, open_log, read_parquet, tune
from glbandits.evaluation.estimators.targets import AlwaysTarget, UniformTarget
from glbandits.evaluation.learning.tune import TuningResult
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.policy_comparison import (
    Candidate,
    ComparisonSettings,
    GateSettings,
    PolicyComparison,
    compare_policies,
)

pytestmark = pytest.mark.system

ROWS = 20_000
SETTINGS = ComparisonSettings(estimators=("snips", "dr"), gate=GateSettings())
COLUMNS = Columns(context=("age", "country"), probabilities="p_{arm}")


@cache
def table() -> pl.DataFrame:
    """Three arms and a context with a text column; 20,000 rows, so that arrays are memory-mapped."""
    rng = np.random.default_rng(3)
    probabilities = rng.dirichlet(np.ones(3), size=ROWS) * 0.7 + 0.1
    chosen = (rng.random((ROWS, 1)) > probabilities.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    columns = {
        "arm": np.array(["a", "b", "c"])[chosen],
        "reward": (rng.random(ROWS) < 0.2 + 0.2 * chosen).astype(int),
        "propensity": probabilities[np.arange(ROWS), chosen],
        "age": rng.normal(size=ROWS),
        "country": np.array(["NA", "DE"])[rng.integers(2, size=ROWS)],
    }
    return pl.DataFrame(columns | {f"p_{arm}": probabilities[:, index] for index, arm in enumerate("abc")})


def candidates(log: Log) -> dict[str, Candidate]:
    """Two policies that learn, two fixed targets, and a model that learned elsewhere."""
    return {
        "optimist": Optimist(link="logistic"),
        "floor": Optimist(link="logistic", floor=0.2),
        "b": AlwaysTarget(1),
        "uniform": UniformTarget(),
        "model": Bandit(Optimist(link="logistic"), log.dim, seed=3),
    }


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table in a Parquet file."""
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    table().write_parquet(path)
    return path


def in_memory() -> LoggedData:
    log = open_log(table(), COLUMNS, link="logistic")
    assert isinstance(log, LoggedData)
    return log


@cache
def in_one_process(path: Path) -> PolicyComparison:
    log = read_parquet(path, COLUMNS, link="logistic")
    return compare_policies(log, candidates(log), SETTINGS)


def tuned(log: Log, jobs: int, engine: str = "local") -> TuningResult:
    return tune(Optimist(link="logistic"), log, grid={"floor": (0.05, 0.1, 0.2)}, seeds=2, jobs=jobs, engine=engine)


def assert_same(result: PolicyComparison, expected: PolicyComparison) -> None:
    """Assert that all numbers are equal, to the last bit."""
    assert_equal_fields(result.promotion, expected.promotion)
    for policy, expected_policy in zip(result.policies, expected.policies, strict=True):
        assert policy.label == expected_policy.label
        assert_equal_fields(policy.evaluation.headline, expected_policy.evaluation.headline)
        for name in SETTINGS.estimators:
            assert_equal_fields(policy.evaluation[name], expected_policy.evaluation[name])
        curve, expected_curve = policy.learning_curve, expected_policy.learning_curve
        assert (curve is None) == (expected_curve is None)
        if curve is not None and expected_curve is not None:
            np.testing.assert_array_equal(curve.at_values, expected_curve.at_values)
            np.testing.assert_array_equal(curve.at_standard_errors, expected_curve.at_standard_errors)


def assert_equal_fields(result: Any, expected: Any) -> None:
    """Assert that the fields of two dataclasses are equal, to the last bit. NaN equals NaN."""
    assert result is not None
    np.testing.assert_equal(asdict(result), asdict(expected))


def assert_same_tuning(result: TuningResult, expected: TuningResult) -> None:
    assert [candidate.value for candidate in result.candidates] == [
        candidate.value for candidate in expected.candidates
    ]
    assert (result.best, result.gain) == (expected.best, expected.gain)
    assert result.gain_standard_error == expected.gain_standard_error


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [True, False])
def test_two_processes_give_the_same_numbers(streamed: bool, file: Path) -> None:
    log = read_parquet(file, COLUMNS, link="logistic") if streamed else in_memory()
    reported: list[tuple[str, float, float]] = []
    result = compare_policies(log, candidates(log), SETTINGS, jobs=2, progress=lambda *report: reported.append(report))
    assert_same(result, in_one_process(file))
    assert_same_tuning(tuned(log, 2), tuned(log, 1))
    assert [(done, total) for _, done, total in reported] == [(step, 8) for step in range(1, 9)]


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[None]:
    """A Ray cluster of two nodes with a core each."""
    ray = pytest.importorskip("ray", reason="Ray is in the extra [ray]")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        assert len(ray.nodes()) == 2
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.slow
@pytest.mark.usefixtures("two_nodes")
def test_two_nodes_of_ray_give_the_same_numbers(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)  # a relative path, which nodes do not have
    streamed = read_parquet("log.parquet", COLUMNS, link="logistic")
    for log in (streamed, in_memory()):
        assert_same(compare_policies(log, candidates(log), SETTINGS, engine="ray"), in_one_process(file))
    assert_same_tuning(tuned(streamed, -1, "ray"), tuned(streamed, 1))


@pytest.mark.slow
@pytest.mark.usefixtures("two_nodes")
def test_missing_file_on_a_node_gives_a_clear_error(tmp_path: Path) -> None:
    table().write_parquet(tmp_path / "log.parquet")
    log = read_parquet(tmp_path / "log.parquet", COLUMNS, link="logistic")
    (tmp_path / "log.parquet").unlink()
    with pytest.raises(InvalidInput, match=r"cannot read .*log.parquet.* under the same absolute path"):
        compare_policies(log, {"uniform": UniformTarget()}, ComparisonSettings(), engine="ray")


def test_missing_file_in_a_worker_gives_a_clear_error(tmp_path: Path) -> None:
    table().write_parquet(tmp_path / "log.parquet")
    log = read_parquet(tmp_path / "log.parquet", COLUMNS, link="logistic")
    (tmp_path / "log.parquet").unlink()
    with pytest.raises(InvalidInput, match=r"a worker on .* cannot read .*log.parquet"):
        compare_policies(log, {"uniform": UniformTarget(), "b": AlwaysTarget(1)}, ComparisonSettings(), jobs=2)


def test_invalid_engines_and_jobs_are_rejected() -> None:
    log = in_memory()
    with pytest.raises(UnknownName, match="unknown engine 'rai'; did you mean 'ray'"):
        compare_policies(log, candidates(log), ComparisonSettings(), engine="rai")
    with pytest.raises(InvalidInput, match="jobs must be a number of parallel workers, or -1"):
        tuned(log, 0)


def fill_disk(_: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_other_errors_of_a_worker_are_not_about_reading() -> None:
    with pytest.raises(OSError, match="No space left on device") as caught:
        list(run_parallel(fill_disk, [1, 2], jobs=2))
    assert not isinstance(caught.value, InvalidInput)
    assert "cannot read" not in str(caught.value)
