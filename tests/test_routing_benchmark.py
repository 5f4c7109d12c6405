"""benchmarks/routing.py on simulated prompts, and on the real ones if their folder is given."""

import os
from pathlib import Path

import pytest
from benchmarks import routing_runs
from benchmarks.prompts import outcome, read_prompts, simulated_prompts
from benchmarks.routing_runs import orders

DATA = "GLB_LLM_ROUTING"
"""Environment variable: the folder of val_k4.jsonl.xz and test_k4.jsonl.xz."""


@pytest.mark.statistics
@pytest.mark.usefixtures("compiled_now")
def test_router_keeps_the_limit_and_beats_the_best_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing_runs, "ORDERS", 2)
    benchmark, traffic = simulated_prompts(400, seed=1), simulated_prompts(1500, seed=2)
    found = outcome(traffic, orders(benchmark, traffic, 0.3), 0.3)
    assert found.overspent < 1.05
    assert found.gain > 0.005


@pytest.mark.usefixtures("compiled_now")
def test_real_prompts_gain_is_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    if DATA not in os.environ:
        pytest.skip(f"needs the folder of the real prompts in {DATA}")
    monkeypatch.setattr(routing_runs, "ORDERS", 3)
    benchmark, traffic = read_prompts(Path(os.environ[DATA]))
    found = outcome(traffic, orders(benchmark, traffic, 0.3), 0.3)
    assert abs(found.gain - 0.030) < 0.01
    assert found.overspent < 1.03
