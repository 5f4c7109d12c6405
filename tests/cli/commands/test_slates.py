"""Slates of rankings: decided over HTTP, exported, evaluated."""

import random
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from glbandits.evaluation import Columns, evaluate_slates, read_parquet
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.cli.in_process import glb
from tests.service.http.personalizer.personalizer_site import Site

DISHES = ("pasta", "juice", "salad", "soup")
EVENTS = 60


@pytest.fixture(scope="module", name="log")
def log_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store, where each of 60 events filled two slots and had both rewarded."""
    folder, rng = tmp_path_factory.mktemp("slates"), random.Random(3)
    with Site(folder) as site:
        site.service.loop("default").reconfigure(lambda current: replace(current, exploration=0.6))
        for number in range(EVENTS):
            rows = [{"dish": dish} for dish in DISHES]
            sent = {"rows": rows, "ids": DISHES, "k": 2, "eventId": f"e{number}"}
            for position, dish in enumerate(site.ask("POST", "/v1/rank", sent).json()["ids"]):
                value = float(rng.random() < 0.2 + 0.6 * (dish == "soup"))
                reward = {"eventId": f"e{number}", "position": position, "value": value}
                assert site.ask("POST", "/v1/reward", reward).status_code == 200
            if number % 20 == 19:
                site.learn()
        site.learn()
    assert glb("store", "export", "log", "--store", "events.db", folder=folder).returncode == 0
    return folder


def by_hand(folder: Path) -> dict[str, float]:
    """Estimate the reward of a slate under a uniform target, from the decisions of the store."""
    totals = dict.fromkeys(("slate-ips", "rips", "iips", "pi"), 0.0)
    with closing(SqliteStore(folder / "events.db")) as store:
        for number in range(EVENTS):
            weights, rewards = [], []
            for slot, allowed in (("0", 4), ("1", 3)):
                settled = store.decision("default", f"e{number}", slot)
                assert settled is not None
                weights.append(1.0 / allowed / settled.decision.probabilities[settled.decision.shown])
                rewards.append(settled.rewards[0].value or 0.0)
            (w, v), (r, s) = weights, rewards
            totals["slate-ips"] += w * v * (r + s) / EVENTS
            totals["rips"] += (w * r + w * v * s) / EVENTS
            totals["iips"] += (w * r + v * s) / EVENTS
            totals["pi"] += (w + v - 1.0) * (r + s) / EVENTS
    return totals


def test_exported_slates_match_values_computed_by_hand(log: Path) -> None:
    slates = read_parquet(log / "log", Columns(features="features", cluster="event_id"))
    evaluation = evaluate_slates(slates, "uniform")
    assert evaluation.slates == EVENTS
    for name, value in by_hand(log).items():
        assert evaluation[name].value == pytest.approx(value, rel=1e-9)
    assert evaluation["rips"].largest_coefficient > 1.1  # the loop had learned, so that the weights differ


@pytest.mark.parametrize("source", ["log", "events.db"])
def test_command_evaluates_an_export_and_a_store(log: Path, source: str) -> None:
    run = glb("evaluate", source, "--slate", "event_id", "--policy", "uniform", "--estimator", "rips", folder=log)
    assert run.returncode == 0, run.stderr
    assert f"rips       {by_hand(log)['rips']:.5f}" in run.stdout
    assert f"over {EVENTS} slates" in run.stdout


def test_unknown_slate_estimator_is_an_error(log: Path) -> None:
    run = glb("evaluate", "log", "--slate", "event_id", "--estimator", "ripz", folder=log)
    assert "unknown estimator of slates 'ripz'; did you mean 'rips'" in run.stderr


@pytest.mark.slow
def test_policies_are_evaluated_on_slates_they_did_not_learn(log: Path) -> None:
    run = glb("evaluate", "log", "--slate", "event_id", "--policy", "optimist", "--policy", "uniform", folder=log)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("over 30 slates") == 2
