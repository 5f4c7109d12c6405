"""An export of decisions with values and costs is evaluated in payoffs."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from glbandits.evaluation import evaluate, open_log
from glbandits.evaluation.readers.service_export import read_export
from glbandits.service.domain.events import Decision
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.request_features import DENSE
from glbandits.service.export import loop_export
from glbandits.service.export.loop_export import export_loop
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.cli.in_process import glb
from tests.service.helpers import WAIT, decision, reward

ROWS = 200
VALUES, COSTS = (1.0, 10.0, 4.0), (0.0, 2.0, 0.5)


def dense(number: int, shown: int, *, values: tuple[float, ...] | None = VALUES) -> Decision:
    return decision(
        str(number),
        number,
        request=np.eye(3).tobytes(),
        encoding=DENSE,
        shown=shown,
        chosen=shown,
        probability=(0.5, 0.25, 0.25)[shown],
        values=values,
        costs=None if values is None else COSTS,
    )


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """The log of a loop whose actions are sold with probability 0.6, 0.3 and 0.2."""
    monkeypatch.setattr(loop_export, "microseconds", lambda: 10 * WAIT)
    store, rng = SqliteStore(tmp_path / "events.db"), np.random.default_rng(3)
    Loop("shop", store, lambda: 0, first_configuration=LoopConfig(width=3))
    shown = rng.choice(3, size=ROWS, p=[0.5, 0.25, 0.25]).tolist()
    sold = rng.random(ROWS) < np.array([0.6, 0.3, 0.2])[shown]
    store.append_blocking([dense(number, arm) for number, arm in enumerate(shown)])
    store.append_blocking([reward(str(number), number + 1, float(sold[number])) for number in range(ROWS)])
    yield store
    store.close()


def test_export_is_evaluated_in_payoffs(store: SqliteStore, tmp_path: Path) -> None:
    export_loop(store, "shop", folder := tmp_path / "out")
    [log] = open_log(folder).blocks()
    assert log.values is not None
    np.testing.assert_array_equal(log.values, [VALUES] * ROWS)
    np.testing.assert_array_equal(log.payoffs, np.array(VALUES)[log.chosen] * log.rewards - np.array(COSTS)[log.chosen])
    result = evaluate(open_log(folder), "arm:b", ["ips", "snips"])
    shown = log.chosen == 1
    assert result["snips"].value == pytest.approx(10 * log.rewards[shown].mean() - 2)
    assert result.unit == "payoff"
    assert evaluate(open_log(folder, payoffs=False), "arm:b", ["snips"]).unit == "reward"


def test_decision_without_values_counts_in_rewards(store: SqliteStore, tmp_path: Path) -> None:
    store.append_blocking([dense(ROWS, 1, values=None), reward(str(ROWS), ROWS + 1, 1.0)])
    export_loop(store, "shop", folder := tmp_path / "out")
    [log] = read_export(folder).blocks()
    assert log.values is not None
    assert log.costs is not None
    np.testing.assert_array_equal(log.values[-2:], [VALUES, (1.0, 1.0, 1.0)])
    np.testing.assert_array_equal(log.costs[-2:], [COSTS, (0.0, 0.0, 0.0)])
    assert log.payoffs[-1] == log.rewards[-1] == 1.0


def test_table_replaces_the_values_of_the_export(store: SqliteStore, tmp_path: Path) -> None:
    store.append_blocking([dense(ROWS, 0, values=None)])
    export_loop(store, "shop", folder := tmp_path / "out")
    [log] = open_log(folder, payoffs={"arm": ["a", "b", "c"], "value": [1, 2, 3]}).blocks()
    np.testing.assert_array_equal(log.payoffs, (log.chosen + 1) * log.rewards)


@pytest.mark.system
@pytest.mark.usefixtures("store")
def test_glb_evaluates_the_store_in_payoffs(tmp_path: Path) -> None:
    words = ("evaluate", "events.db", "--loop", "shop", "--policy", "arm:b", "--policy", "uniform")
    run = glb(*words, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "Mean payoff per decision" in run.stdout
    record = json.loads((tmp_path / "out/evaluate/evaluation.json").read_text(encoding="utf-8"))
    assert record["unit"] == "payoff"
    run = glb(*words, "--payoffs", "", folder=tmp_path)
    assert "Mean reward per decision" in run.stdout, run.stderr
    (tmp_path / "arms.csv").write_text("arm,value\na,1\nb,100\nc,1\n", encoding="utf-8")
    run = glb(*words, "--payoffs", "arms.csv", folder=tmp_path)
    assert "Note: the loop runs" in run.stdout, run.stderr
    assert "Mean payoff per decision" in run.stdout
