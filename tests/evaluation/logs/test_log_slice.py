"""Splits of logs whose clusters interleave, such as users in a log that is sorted by time."""

import json
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from glbandits import Optimist
from glbandits.evaluation import FixedArms, LoggedData, evaluate
from glbandits.evaluation.estimators.targets import GivenTarget
from glbandits.evaluation.logs.log_slice import SelectedRows, split
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.policy_comparison import ComparisonSettings, compare_policies
from tests.cli.in_process import glb
from tests.evaluation.learning_problem import Stream

Bools: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]
USERS = 100
ARM_SCORES = np.array([-0.5, 0.0, 0.5])


def user_log(seed: int, rows: int = 2000, deviation: float = 1.0) -> LoggedData:
    """Rows of users in random order. Each user has an effect on all rewards, and one for each arm."""
    rng = np.random.default_rng(seed)
    users, chosen = rng.integers(USERS, size=rows), rng.integers(3, size=rows)
    own = deviation * (rng.normal(size=(USERS, 1)) + rng.normal(size=(USERS, 3))) / np.sqrt(2.0)
    scores = ARM_SCORES[chosen] + own[users, chosen]
    return LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < expit(scores)).astype(float),
        propensities=np.full(rows, 1 / 3),
        clusters=users,
        arms=FixedArms(np.eye(3), rows=rows),
        link="logistic",
        arm_names=("a", "b", "c"),
    )


def clusters_of(part: Log) -> set[int]:
    blocks = [block.clusters for block in part.blocks(100)]
    return {int(cluster) for clusters in blocks if clusters is not None for cluster in clusters}


def rows_of(part: Log, log: LoggedData) -> Bools:
    """The rows of the log whose cluster is in this slice."""
    assert log.clusters is not None
    return np.isin(log.clusters, list(clusters_of(part)))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_no_cluster_is_in_both_parts(share: float) -> None:
    """The share of clusters is within 4 standard errors: a false alarm in 6e-5 of seeds."""
    log = user_log(1)
    first, second = split(Stream(log, 64, []), share)
    assert isinstance(first, SelectedRows)
    assert not clusters_of(first) & clusters_of(second)
    assert clusters_of(first) | clusters_of(second) == set(range(USERS))
    assert len(clusters_of(first)) / USERS == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / USERS))
    assert len(first) + len(second) == len(log)
    for part in (first, second):
        rows = rows_of(part, log)
        assert len(part) == rows.sum()
        assert (part.dim, part.arm_names) == (3, ("a", "b", "c"))
        np.testing.assert_array_equal(np.concatenate([block.rewards for block in part.blocks(50)]), log.rewards[rows])
        np.testing.assert_array_equal(part.select(log.rewards), log.rewards[rows])


def test_given_target_follows_the_rows_of_a_slice() -> None:
    log, rng = user_log(2), np.random.default_rng(3)
    target = rng.dirichlet(np.ones(3), size=len(log))
    _, second = split(log, 0.5)
    rows = rows_of(second, log)
    found = compare_policies(
        log, {"learns": Optimist(), "given": GivenTarget(target)}, ComparisonSettings(estimators=("ips",))
    )
    expected = evaluate(log[rows], target[rows], "ips")["ips"].value
    assert found.policies[1].evaluation["ips"].value == pytest.approx(expected, rel=1e-12)
    assert found.policies[1].evaluation.support.rows == rows.sum()


def test_log_sorted_by_time_is_split_by_clusters(tmp_path: Path) -> None:
    log = user_log(4)
    columns = {"arm": np.array(log.arm_names)[log.chosen], "reward": log.rewards, "propensity": 1 / 3}
    pl.DataFrame(columns | {"user": log.clusters}).write_parquet(tmp_path / "log.parquet")
    options = ("--cluster", "user", "--link", "logistic", "--policy", "optimist")
    run = glb("evaluate", "log.parquet", *options, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    first, second = split(log, 0.5)
    assert f"learned {len(first):,} rows; evaluated on the {len(second):,} rows of other clusters" in run.stdout
    record = json.loads((tmp_path / "out/evaluate/evaluation.json").read_text(encoding="utf-8"))
    assert record["by_cluster"]


@pytest.mark.slow
def test_intervals_cover_with_user_effects() -> None:
    """400 logs of 100 users; a greedy policy learns from half of them.

    The truth is the mean reward over all users of the arm that it has learned to play. At a coverage of 0.95, fewer
    than 0.914 of 400 intervals hold it with probability 0.001. Standard errors of single rows would be too small.
    """
    normals = np.random.default_rng(0).normal(size=200_000)
    truths = [float(expit(score + normals).mean()) for score in ARM_SCORES]
    held = np.zeros(2)
    for seed in range(400):
        log = user_log(seed)
        _, second = split(log, 0.5)
        rows = rows_of(second, log)
        played = np.bincount(log.chosen[~rows], weights=log.rewards[~rows], minlength=3)
        best = int(np.argmax(played / np.bincount(log.chosen[~rows], minlength=3)))
        always = np.eye(3)[np.full(rows.sum(), best)]
        estimate = evaluate(second, always, ["snips", "dr"])
        held += [low <= truths[best] <= high for low, high in (estimate["snips"].normal, estimate["dr"].normal)]
    assert (held / 400 >= 0.914).all()
