"""Evaluations of a log in parts: the same result for every number of workers, and after an interruption."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput, Optimist
from glbandits.common.arrays import Floats
from glbandits.evaluation import Columns, LoggedData, evaluate, evaluation_parts, open_log, train
from glbandits.evaluation.estimators.grouped_moments import ClusterNumbers
from glbandits.evaluation.estimators.results import Evaluation
from glbandits.evaluation.estimators.support import LargeWeightSums, SupportSums
from glbandits.evaluation.estimators.targets import UniformTarget
from glbandits.evaluation.logs.log_slice import LogSlice, SelectedRows, blocks_by_part, row_bounds
from glbandits.evaluation.models import reward_models
from glbandits.maths.links import find_link
from glbandits.maths.online_statistics.running_sums import RunningSums

ROWS, SIZE, ARMS = 6000, 500, ("a", "b", "c")
COLUMNS = Columns(context=("age",), probabilities="p_{arm}")
TARGETS = {"uniform": "uniform", "a": "arm:a"}
ESTIMATORS = ("dr", "ips", "snips", "switch-dr")


def table(rows: int = ROWS) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    probabilities = 0.7 * rng.dirichlet(np.ones(3), size=rows) + 0.1
    chosen = (rng.random((rows, 1)) > probabilities.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    age = rng.normal(size=rows)
    reward = (rng.random(rows) < 1.0 / (1.0 + np.exp(age * (chosen - 1.0)))).astype(np.int8)
    per_arm = {f"p_{arm}": probabilities[:, index] for index, arm in enumerate(ARMS)}
    user = rng.integers(0, rows // 4, size=rows)
    columns = {"arm": np.array(ARMS)[chosen], "reward": reward, "age": age, "user": user}
    propensity = {"propensity": probabilities[np.arange(rows), chosen]}
    return pl.DataFrame(columns | propensity | per_arm)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 500 rows and parts of 1,500."""
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")
    monkeypatch.setattr(evaluation_parts, "PART_ROWS", 3 * SIZE)
    monkeypatch.setattr(import_module("glbandits.evaluation.evaluate"), "BLOCK", SIZE)


@pytest.fixture(name="path")
def path_fixture(tmp_path: Path) -> Path:
    table().write_parquet(tmp_path / "log.parquet", row_group_size=700)
    return tmp_path / "log.parquet"


def numbers(found: Mapping[str, Evaluation]) -> list[Any]:
    """All numbers of evaluations."""
    return [
        (
            name,
            [(one.value, one.standard_error, one.normal, one.running.tolist()) for one in each.estimates],
            None if each.headline is None else str(vars(each.headline)),
            each.support.weight_counts.tolist(),
            (each.support.effective_sample_size, each.support.mean_weight, each.logged, each.logged_error, each.notes),
        )
        for name, each in found.items()
    ]


def test_workers_give_the_same_result_to_the_last_bit(path: Path) -> None:
    log = open_log(path, COLUMNS, link="logistic")
    results = [
        evaluate(log, TARGETS, ESTIMATORS, reference="uniform", jobs=jobs, progress=lambda *_: None)
        for jobs in (1, 2, 3)
    ]
    assert len(row_bounds(log, SIZE, 3 * SIZE)) == 4
    assert numbers(results[0]) == numbers(results[1]) == numbers(results[2])


def test_parts_of_other_logs_are_read_by_workers(path: Path) -> None:
    """CSV is converted for workers; a part of a log and a log in memory are read as they are."""
    table().write_csv(path.with_suffix(".csv"))
    csv = open_log(path.with_suffix(".csv"), COLUMNS, link="logistic")
    memory = open_log(table(), COLUMNS, link="logistic")
    assert isinstance(memory, LoggedData)
    for log in (csv, LogSlice(csv, 700, 5500), memory):
        one, two = (evaluate(log, TARGETS, jobs=jobs, progress=lambda *_: None) for jobs in (1, 2))
        assert numbers(one) == numbers(two)


def test_clusters_give_the_same_result_to_the_last_bit(path: Path) -> None:
    columns = Columns(context=("age",), probabilities="p_{arm}", cluster="user")
    log = open_log(path, columns, link="logistic")
    clustered = [evaluate(log, TARGETS, jobs=jobs, progress=lambda *_: None) for jobs in (1, 2)]
    assert numbers(clustered[0]) == numbers(clustered[1])
    alone = evaluate(open_log(path, COLUMNS, link="logistic"), TARGETS, progress=lambda *_: None)
    assert clustered[0]["uniform"]["ips"].standard_error != alone["uniform"]["ips"].standard_error


def test_drawn_decisions_depend_on_the_part_only(path: Path) -> None:
    log = open_log(path, COLUMNS, link="logistic")
    bandit = train(LogSlice(log, 0, 300), "laplace-ts", progress=lambda *_: None)
    bandit.training = None
    found = [evaluate(log, bandit, ("ips",), jobs=jobs, progress=lambda *_: None) for jobs in (1, 2, 1)]
    assert numbers({"": found[0]}) == numbers({"": found[1]}) == numbers({"": found[2]})


def test_several_parts_agree_with_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(path, COLUMNS, link="logistic")
    parts = evaluate(log, TARGETS, ESTIMATORS, progress=lambda *_: None)
    monkeypatch.setattr(evaluation_parts, "PART_ROWS", ROWS)
    whole = evaluate(log, TARGETS, ESTIMATORS, progress=lambda *_: None)
    for name, found in parts.items():
        expected = whole[name]
        assert [each.value for each in found.estimates] == pytest.approx([each.value for each in expected.estimates])
        assert found.headline is not None
        assert expected.headline is not None
        assert found.headline.value.fixed_n == pytest.approx(expected.headline.value.fixed_n)
        anytime, one = found.headline.gain.anytime, expected.headline.gain.anytime
        assert anytime is not None
        assert one is not None
        assert anytime.rows == one.rows == ROWS
        assert anytime.high - anytime.low == pytest.approx(one.high - one.low, rel=0.02)
        for ours, theirs in zip(found.estimates, expected.estimates, strict=True):
            np.testing.assert_allclose(ours.running, theirs.running)
        np.testing.assert_allclose(found.logged_running, expected.logged_running)


def test_interrupted_evaluation_continues(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, folder = open_log(path, COLUMNS, link="logistic"), tmp_path / "parts"
    expected = evaluate(open_log(path, COLUMNS, link="logistic"), TARGETS, progress=lambda *_: None)

    def stop(done: int, total: int) -> None:
        if done > 0.8 * total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(log, TARGETS, resume=folder, progress=stop)
    finished = sorted(file.name for file in folder.rglob("*.pickle"))
    assert finished[0] == "0.pickle"
    assert "models.pickle" in finished
    assert "3.pickle" not in finished
    again, read, starts = open_log(path, COLUMNS, link="logistic"), list[int](), list[int]()
    whole_blocks = type(again).blocks

    def blocks(each: Any, size: int, *, start: int = 0, **options: Any) -> Any:
        starts.append(start)
        return whole_blocks(each, size, start=start, **options)

    monkeypatch.setattr(type(again), "blocks", blocks)
    part = evaluation_parts.EvaluationWork._sums

    def count(work: Any, index: int, *arguments: Any) -> Any:
        read.append(index)
        return part(work, index, *arguments)

    monkeypatch.setattr(evaluation_parts.EvaluationWork, "_sums", count)
    assert numbers(evaluate(again, TARGETS, resume=folder, progress=lambda *_: None)) == numbers(expected)
    assert read == [index for index in range(4) if f"{index}.pickle" not in finished]
    assert starts == [3 * SIZE * read[0]]
    table().with_columns(reward=1 - pl.col("reward")).write_parquet(path)
    changed = evaluate(open_log(path, COLUMNS, link="logistic"), TARGETS, resume=folder, progress=lambda *_: None)
    assert changed["a"].logged == pytest.approx(1.0 - expected["a"].logged)


def test_interrupted_evaluation_of_a_sorted_log_continues(path: Path, tmp_path: Path) -> None:
    table().with_columns(at=-pl.int_range(ROWS)).write_parquet(path)
    columns, folder, read = Columns(context=("age",), time="at"), tmp_path / "parts", list[int]()

    def stop(done: int, _: int) -> None:
        if done > 0.6 * ROWS:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(open_log(path, columns), "uniform", "snips", resume=folder, progress=stop)
    evaluate(open_log(path, columns), "uniform", "snips", resume=folder, progress=lambda done, _: read.append(done))
    assert len(list(folder.iterdir())) == 1
    assert read[0] == 3 * SIZE
    assert read[-1] == ROWS


def test_progress_counts_rows_up_to_all(path: Path) -> None:
    log = open_log(path, COLUMNS, link="logistic")
    for jobs in (1, 2):
        calls = list[tuple[int, int]]()
        evaluate(log, "uniform", jobs=jobs, progress=lambda done, total, calls=calls: calls.append((done, total)))
        assert [done for done, _ in calls] == sorted(done for done, _ in calls)
        assert calls[-1] == (3 * ROWS, 3 * ROWS)


def test_parts_cover_all_rows_once() -> None:
    log = open_log(table(), COLUMNS)
    assert isinstance(log, LoggedData)
    mask = np.random.default_rng(0).random(ROWS) < 0.4
    for each in (log, LogSlice(log, 333, 5000), SelectedRows(log, mask)):
        bounds = row_bounds(each, SIZE, 2 * SIZE)
        rows = [0] * len(bounds)
        for part, block in blocks_by_part(each, SIZE, bounds):
            rows[part] += len(block)
        assert rows == [last - first for first, last in bounds]
        assert sum(rows) == len(each)
        read = [block.rewards for first, last in bounds for block in each.blocks(SIZE, start=first, stop=last)]
        np.testing.assert_array_equal(np.concatenate(read), np.concatenate([block.rewards for block in each.blocks()]))


def test_strides_read_the_rows_of_whole_blocks(path: Path) -> None:
    log = open_log(path, COLUMNS)
    for every, start in ((1, 0), (7, 0), (8, 1234)):
        whole = list(log.blocks(SIZE, start=start))
        read = list(log.blocks(SIZE, start=start, every=every))
        rows, row = [], start
        for block in whole:
            rows.append(block.rewards[-row % every :: every])
            row += len(block)
        assert [block.rewards.tolist() for block in read] == [each.tolist() for each in rows]


def test_blocks_without_features_read_no_features(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, read = open_log(path, COLUMNS), list[list[str]]()
    collect = pl.LazyFrame.collect

    def listen(frame: pl.LazyFrame, *arguments: Any, **options: Any) -> Any:
        rows: Any = collect(frame, *arguments, **options)
        read.append(rows.columns)
        return rows

    monkeypatch.setattr(pl.LazyFrame, "collect", listen)
    (block,) = log.blocks(ROWS, features=False)
    assert len(block) == ROWS
    assert "age" not in read[-1]
    with pytest.raises(InvalidInput, match="read without features"):
        block.features()


def test_model_of_earlier_rows_reads_only_rows_that_it_learns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reward_models, "ALL_LEARNED", 1000)
    monkeypatch.setattr(reward_models, "MAX_BLOCK", 80)
    log, link, size = open_log(path, COLUMNS, link="logistic"), find_link("logistic"), 400
    for each in (log, LogSlice(log, 800, 5300), LogSlice(log, 333, 5300)):
        model = reward_models.SequentialGlm(link, log.dim)
        expected = [model.predict_next(block) for block in each.blocks(size)]
        learned = reward_models.learn_sequence(each, link, size, lambda _: None)
        reader = learned.at(0)
        np.testing.assert_array_equal(
            np.concatenate([reader.predict_next(block) for block in each.blocks(size)]), np.concatenate(expected)
        )
        later = learned.at(1200)
        np.testing.assert_array_equal(
            np.concatenate([later.predict_next(block) for block in each.blocks(size, start=1200)]),
            np.concatenate(expected)[1200:],
        )


def test_running_sums_merge() -> None:
    rng = np.random.default_rng(0)
    values = rng.random((2, 1000))
    whole = RunningSums(2, 7)
    whole.add(values)
    for cut in (1, 500, 641, 999):
        first, second = RunningSums(2, 7), RunningSums(2, 7, first_row=cut)
        first.add(values[:, :cut])
        second.add(values[:, cut:])
        first.merge(second)
        np.testing.assert_allclose(first.table(), whole.table())


def test_large_weights_merge() -> None:
    weights = np.random.default_rng(0).lognormal(sigma=2.0, size=5000)
    whole, first, second = LargeWeightSums(), LargeWeightSums(), LargeWeightSums()
    whole.add(weights, np.ones(5000))
    first.add(weights[:2000], np.ones(2000))
    second.add(weights[2000:], np.ones(3000))
    first.merge(second)
    assert first.from_weight(whole.largest / 2) == pytest.approx(whole.from_weight(whole.largest / 2))


def test_support_merges() -> None:
    log = open_log(table(1000), COLUMNS)
    assert isinstance(log, LoggedData)
    target: Floats = UniformTarget().probabilities(log, 0)
    assert log.propensities is not None
    weights = target[:, 0] / log.propensities
    whole, first, second = (SupportSums(3) for _ in range(3))
    whole.add(log, target, weights)
    first.add(log[:400], target[:400], weights[:400])
    second.add(log[400:], target[400:], weights[400:])
    first.merge(second)
    ours, theirs = first.support(), whole.support()
    assert (ours.rows, ours.largest_weight, ours.unused) == (theirs.rows, theirs.largest_weight, theirs.unused)
    assert ours.effective_sample_size == pytest.approx(theirs.effective_sample_size)


def test_clusters_are_numbered_by_block_and_id() -> None:
    numbered = ClusterNumbers()
    for block in ([7, 3, 7], [9, 3, 1], [2, 7, 9]):
        numbered.add(np.array(block))
    assert numbered.find(np.array([3, 7, 1, 9, 2])).tolist() == [0, 1, 2, 3, 4]


def test_policy_learns_in_order_whatever_the_workers(path: Path) -> None:
    log = open_log(path, COLUMNS, link="logistic")
    bandit = train(LogSlice(log, 0, 500), Optimist(link="logistic"), progress=lambda *_: None)
    bandit.training = None
    one, two = (evaluate(log, bandit, ("dr",), jobs=jobs, progress=lambda *_: None) for jobs in (1, 2))
    assert numbers({"": one}) == numbers({"": two})
