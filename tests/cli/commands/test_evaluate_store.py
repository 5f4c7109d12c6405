"""`glb evaluate` of the store of a service: it uses the settings of the loop."""

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from glbandits.service.domain.groups.experiment import Control, MetricSettings
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.cli.in_process import glb
from tests.service.export.written_loop import play
from tests.service.runtime.loops.loop_helpers import Clock

pytestmark = pytest.mark.usefixtures("plain_python")


def test_running_policy_does_not_beat_itself(tmp_path: Path) -> None:
    store, clock = SqliteStore(tmp_path / "events.sqlite"), Clock()
    settings = {"link": "logistic", "half_life": 100_000.0}
    configuration = LoopConfig(settings=settings, exploration=0.2, width=4, reward_wait=1.0)
    loop = Loop("default", store, clock, first_configuration=configuration)
    for seed in range(10):
        play(loop, store, clock, 200, seed=seed)
    store.close()
    assert gain_over_log(tmp_path) == pytest.approx(0.0, abs=0.005)
    assert gain_over_log(tmp_path, "--exploration", "0") > 0.02


def gain_over_log(folder: Path, *options: str) -> float:
    run = glb("evaluate", "events.sqlite", "--out", "found", "--estimator", "snips", *options, folder=folder)
    assert run.returncode == 0, run.stderr
    assert "the loop runs optimist:half_life=100000.0 with the logistic link and exploration 0.2" in run.stdout
    record = json.loads((folder / "found/evaluation.json").read_text(encoding="utf-8"))
    running = {policy["label"]: policy for policy in record["policies"]}["optimist:half_life=100000.0"]
    return float(running["estimates"][0]["value"] - running["logged"])


def test_control_group_is_compared_as_the_service_does(tmp_path: Path) -> None:
    store, clock = SqliteStore(tmp_path / "events.sqlite"), Clock()
    metrics = {"reward": MetricSettings(range=(0.0, 1.0), window=1.0, margin=0.02)}
    control = Control(share=0.3, by="event")
    configuration = LoopConfig(width=4, reward_wait=1.0, control=control, metrics=metrics)
    loop = Loop("default", store, clock, first_configuration=configuration)
    play(loop, store, clock, 200)
    clock.wait(60)
    loop.learn()
    (live,) = loop.guardrails.report(loop.configuration).metrics
    store.close()
    assert glb("store", "export", "log", "--store", "events.sqlite", folder=tmp_path).returncode == 0
    for source in ("events.sqlite", "log"):
        run = glb("evaluate", source, "--out", f"{source}-out", "--estimator", "snips", folder=tmp_path)
        assert run.returncode == 0, run.stderr
        assert live.sentence in run.stdout
        record = json.loads((tmp_path / f"{source}-out/evaluation.json").read_text(encoding="utf-8"))
        assert record["guardrails"] == [json.loads(msgspec.json.encode(replace(live, waiting=0)))]
        page = (tmp_path / f"{source}-out/evaluation.html").read_text(encoding="utf-8")
        assert live.sentence in page
    assert live.treatment.units + live.control.units == 192


def test_empty_store_is_one_sentence(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "events.sqlite")
    Loop("default", store, Clock())
    store.close()
    run = glb("evaluate", "events.sqlite", folder=tmp_path)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert "has no settled decision" in run.stderr
