"""Exports of loops with a control group, sticky units and fallback: all rows are there, evaluations use drawn ones."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from glbandits.common.errors import InvalidInput
from glbandits.evaluation import evaluate
from glbandits.evaluation.readers.service_export import read_export
from glbandits.service.domain.events import Decision, DecisionRequest, Group, Reward
from glbandits.service.domain.groups.experiment import Control
from glbandits.service.domain.request_features import DENSE
from glbandits.service.export.loop_export import export_loop
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.cli.in_process import glb
from tests.service.export.written_loop import ARMS, uniform_loop
from tests.service.runtime.loops.loop_helpers import Clock

pytestmark = pytest.mark.usefixtures("plain_python")

ACTIONS = ("a", "b", "c", "d")


def made(loop: Loop, event_id: str, **more: Any) -> Decision:
    return loop.decide(
        DecisionRequest(event_id=event_id, request=ARMS.tobytes(), encoding=DENSE, actions=ACTIONS, **more)
    )


def write(folder: Path, count: int = 120, show: str = "baseline") -> list[Decision]:
    """A log in which control, every third decision of treatment (repeats) and every fourth (fallback) earn 1000."""
    store, clock = SqliteStore(folder / "events.sqlite"), Clock()
    loop = uniform_loop(store, clock, control=Control(share=0.4, show=show))
    decisions = [made(loop, f"e{number}", unit=f"u{number}") for number in range(count)]
    for number, each in enumerate(decisions):
        if each.group is Group.TREATMENT and number % 12 in (0, 1):
            changed: dict[str, Any] = {"repeats": "e0"} if number % 12 else {"fallback": True, "shown": 0}
            decisions[number] = replace(each, **changed)
    rng = np.random.default_rng(0)
    rewards = [float(rng.random() < 0.5) if each.is_drawn else 1000.0 for each in decisions]
    store.append_blocking(decisions)
    store.append_blocking(
        [
            Reward(loop="default", event_id=each.event_id, timestamp=clock(), value=value)
            for each, value in zip(decisions, rewards, strict=True)
        ]
    )
    clock.wait(2)
    loop.learn()
    export_loop(store, "default", folder / "log")
    store.close()
    return decisions


def test_all_rows_are_exported_with_their_group(tmp_path: Path) -> None:
    decisions = write(tmp_path)
    table = pl.read_parquet(tmp_path / "log/*.parquet")
    assert len(table) == len(decisions)
    for name in ("unit", "group", "control_share", "fallback", "repeats"):
        assert table[name].to_list() == [getattr(each, name) for each in decisions]
    control = table.filter(pl.col("group") == "control")
    assert control["probabilities"].unique().to_list() == [[1.0, 0.0, 0.0, 0.0]]
    assert set(control["propensity"]) == {1.0}


def test_random_control_has_equal_probabilities(tmp_path: Path) -> None:
    write(tmp_path, show="uniform")
    control = pl.read_parquet(tmp_path / "log/*.parquet").filter(pl.col("group") == "control", ~pl.col("fallback"))
    assert control["probabilities"].unique().to_list() == [[0.25] * 4]


def test_evaluations_use_drawn_decisions_only(tmp_path: Path) -> None:
    decisions = write(tmp_path)
    drawn = [each for each in decisions if each.is_drawn]
    control = sum(each.group is Group.CONTROL for each in decisions)
    with pytest.warns(UserWarning, match=f"{len(decisions) - len(drawn)} of 120 decisions are left out") as caught:
        log = read_export(tmp_path / "log")
    assert f"{control} of the control group" in str(caught[0].message)
    assert "in fallback" in str(caught[0].message)
    assert "repeats of sticky units" in str(caught[0].message)
    assert len(log) == len(drawn) == sum(len(block.rewards) for block in log.blocks())
    assert evaluate(log, "arm:b", "ips")["ips"].value < 5.0


def test_glb_evaluate_says_what_it_left_out(tmp_path: Path) -> None:
    write(tmp_path)
    for address in ("log", "events.sqlite"):
        run = glb("evaluate", address, "--policy", "uniform", folder=tmp_path)
        assert run.returncode == 0, run.stderr
        assert "of the control group" in run.stdout


def test_a_log_without_drawn_decisions_is_one_sentence(tmp_path: Path) -> None:
    store, clock = SqliteStore(tmp_path / "events.sqlite"), Clock()
    loop = uniform_loop(store, clock)
    store.append_blocking([replace(made(loop, "e"), fallback=True)])
    clock.wait(2)
    export_loop(store, "default", tmp_path / "log")
    store.close()
    with pytest.warns(UserWarning, match="left out"), pytest.raises(InvalidInput, match="no decision whose action"):
        read_export(tmp_path / "log")


def test_a_ranking_with_a_repeat_is_left_out_as_a_whole(tmp_path: Path) -> None:
    store, clock = SqliteStore(tmp_path / "events.sqlite"), Clock()
    loop = uniform_loop(store, clock)
    decisions = [made(loop, name, slot=slot, slots=("0", "1")) for name in "xy" for slot in "01"]
    store.append_blocking([*decisions[:3], replace(decisions[3], repeats="x")])
    clock.wait(2)
    export_loop(store, "default", tmp_path / "log")
    store.close()
    with pytest.warns(UserWarning, match="1 of the same rankings, 1 repeats"):
        log = read_export(tmp_path / "log")
    assert len(log) == 2
