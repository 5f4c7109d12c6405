"""`glb evaluate` of the store of a service: it uses the settings of the loop."""

import json
from pathlib import Path

import pytest

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
    running = {policy["policy"]: policy for policy in record["policies"]}["optimist:half_life=100000.0"]
    return float(running["estimates"][0]["more_than_log"])


def test_empty_store_is_one_sentence(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "events.sqlite")
    Loop("default", store, Clock())
    store.close()
    run = glb("evaluate", "events.sqlite", folder=tmp_path)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert "has no settled decision" in run.stderr
