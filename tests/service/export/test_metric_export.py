"""The numbers of metrics in an export, and their evaluation as rewards."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput, UnknownName
from glbandits.evaluation import Columns, evaluate, open_log
from glbandits.evaluation.logs.log_slice import with_reward
from glbandits.evaluation.readers.service_export import read_export
from glbandits.maths.links import find_link
from glbandits.routing.audit_log import numbers_of, read_routes
from glbandits.service.domain.events import Decision, Reward
from glbandits.service.domain.groups.experiment import MetricSettings
from glbandits.service.domain.loop_config import SECOND, LoopConfig
from glbandits.service.domain.request_features import DENSE
from glbandits.service.export import loop_export
from glbandits.service.export.loop_export import export_loop
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.cli.in_process import glb
from tests.service.helpers import decision, metric, reward

ROWS, WINDOW, NOW = 60, 100, 1_000 * SECOND
METRICS = {
    "cost": MetricSettings(range=(0, 10), good="lower", window=WINDOW),
    "returned": msgspec.convert({"range": (0, 9), "window": WINDOW, "combine": "sum", "default": 0.5}, MetricSettings),
}


def made(number: int, timestamp: int = 0) -> Decision:
    """A decision with values, so that an evaluation of rewards is one of payoffs."""
    shown = number % 3
    return decision(
        str(number),
        timestamp,
        request=np.eye(3).tobytes(),
        encoding=DENSE,
        shown=shown,
        chosen=shown,
        probability=(0.5, 0.25, 0.25)[shown],
        values=(1.0, 2.0, 3.0),
    )


def number_of(event_id: str, name: str, value: float, seconds: float, key: str = "") -> Reward:
    return metric(event_id, name, value, round(seconds * SECOND), window=WINDOW * SECOND, key=key)


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """The log of a loop in which action 0 costs 4, and the others 1."""
    monkeypatch.setattr(loop_export, "microseconds", lambda: NOW)
    store = SqliteStore(tmp_path / "events.db")
    Loop("shop", store, lambda: 0, first_configuration=LoopConfig(width=3, metrics=METRICS))
    store.append_blocking([made(number) for number in range(ROWS)])
    store.append_blocking([reward(str(number), number + 1, 1.0) for number in range(ROWS)])
    costs = [4.0 if number % 3 == 0 else 1.0 for number in range(ROWS)]
    store.append_blocking([number_of(str(number), "cost", cost, 1) for number, cost in enumerate(costs)])
    yield store
    store.close()


def exported(store: SqliteStore, folder: Path) -> pl.DataFrame:
    export_loop(store, "shop", folder)
    return pl.read_parquet(folder / "decisions-*.parquet")


def test_export_has_the_combined_number_of_each_decision(store: SqliteStore, tmp_path: Path) -> None:
    returns = [number_of("0", "returned", 1.0, seconds, str(seconds)) for seconds in (2, WINDOW - 1, WINDOW + 1)]
    store.append_blocking(returns)
    table = exported(store, tmp_path / "out")
    assert table["metric:cost"].to_list()[:4] == [4.0, 1.0, 1.0, 4.0]
    assert table["metric:returned"].to_list()[:2] == [2.0, 0.5]  # the last one came after the window


def test_metric_is_evaluated_as_reward_without_payoffs(store: SqliteStore, tmp_path: Path) -> None:
    export_loop(store, "shop", folder := tmp_path / "out")
    log = open_log(folder, Columns(reward="metric:cost"))
    assert [evaluate(log, f"arm:{arm}", "snips")["snips"].value for arm in "abc"] == [4.0, 1.0, 1.0]
    result = evaluate(log, "arm:a", "snips")
    assert (result.unit, find_link(next(iter(log.blocks())).link).name) == ("reward", "identity")
    with pytest.raises(UnknownName, match="unknown reward 'metric:costs'; did you mean 'metric:cost'"):
        read_export(folder, reward="metric:costs")


def test_decision_with_an_open_window_has_no_number(store: SqliteStore, tmp_path: Path) -> None:
    late = NOW - 50 * SECOND
    store.append_blocking([made(ROWS, late), number_of(str(ROWS), "cost", 9.0, 951)])
    assert exported(store, tmp_path / "out")["metric:cost"].to_list()[-1] is None
    with pytest.warns(UserWarning, match="1 of 61 decisions are left out, because they have no metric:cost: none came"):
        log = read_export(tmp_path / "out", reward="metric:cost")
    assert len(log) == sum(len(block.rewards) for block in log.blocks()) == ROWS


def test_rewards_with_open_windows_are_columns_of_one_log(store: SqliteStore, tmp_path: Path) -> None:
    store.append_blocking([made(ROWS, NOW - 50 * SECOND)])
    export_loop(store, "shop", tmp_path / "out")
    log = open_log(tmp_path / "out", Columns(other_rewards=("metric:cost", "metric:returned")))
    assert len(log) == ROWS + 1
    costs = with_reward(log, "metric:cost")
    assert len(costs) == ROWS
    assert [evaluate(costs, f"arm:{arm}", "snips")["snips"].value for arm in "abc"] == [4.0, 1.0, 1.0]


def test_export_is_audited_as_the_log_of_a_router(store: SqliteStore, tmp_path: Path) -> None:
    store.append_blocking([made(ROWS), number_of(str(ROWS), "cost", 2.0, 1), reward(str(ROWS), ROWS + 1, 0.5)])
    export_loop(store, "shop", folder := tmp_path / "out")
    log = read_routes(folder)
    assert log.cost.arm_names == ("a", "b", "c")
    assert log.cost.rewards[:4].tolist() == [4.0, 1.0, 1.0, 4.0]
    assert log.quality is not None
    assert log.quality.rewards[-1] == 0.5


def test_numbers_of_a_request_are_features_of_a_prompt() -> None:
    fields = '[{"tokens": 3, "kind": "code", "embedding": [0.5, -1.0], "_price": 9.0}, {"is_long": true}]'
    assert numbers_of(fields) == [1.0, 0.5, -1.0, 3.0, 1.0]
    assert numbers_of("[]") == [1.0]


def test_export_without_costs_is_not_audited(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "plain.db")
    Loop("shop", store, lambda: 0, first_configuration=LoopConfig(width=3))
    store.append_blocking([made(0)])
    export_loop(store, "shop", folder := tmp_path / "out")
    store.close()
    with pytest.raises(InvalidInput, match="must have the column metric:cost"):
        read_routes(folder)


@pytest.mark.system
@pytest.mark.usefixtures("store")
def test_glb_evaluates_a_metric_of_the_store(tmp_path: Path) -> None:
    words = ("evaluate", "events.db", "--loop", "shop", "--policy", "arm:a", "--estimator", "snips")
    run = glb(*words, "--reward", "reward", "--reward", "metric:cost", "--payoffs", "", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    record = json.loads((tmp_path / "out/evaluate/evaluation.json").read_text(encoding="utf-8"))
    assert "metric:cost" in json.dumps(record)
    assert "metric:cost" in run.stdout
