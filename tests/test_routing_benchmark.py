"""benchmarks/routing.py on simulated prompts, and on the real ones if their folder is given."""

import os
from pathlib import Path

import numpy as np
import pytest
from benchmarks import routing_runs
from benchmarks.prompts import Mix, Prompts, Run, best_mix, largest_mean, outcome, read_prompts, simulated_prompts
from benchmarks.routing_baselines import epsilon_greedy, trained_offline
from benchmarks.routing_changes import CHANGED, dearer, long_traffic, worse
from benchmarks.routing_runs import HALF, orders

DATA = "GLB_LLM_ROUTING"
"""Environment variable: the folder of val_k4.jsonl.xz and test_k4.jsonl.xz."""


def test_simulated_means_are_those_of_the_real_data() -> None:
    prompts = simulated_prompts(20_000, seed=1)
    np.testing.assert_allclose(prompts.quality.mean(axis=0), [0.795, 0.924, 0.925, 0.933], atol=0.01)
    np.testing.assert_allclose(prompts.cost.mean(axis=0), [0.028, 0.513, 0.882, 15.05], rtol=0.05)


def test_best_mix_spends_what_it_may() -> None:
    quality, cost = np.tile([0.0, 0.5, 1.0], (4, 1)), np.tile([1.0, 4.0, 5.0], (4, 1))
    prompts = Prompts(("a", "b", "c"), np.zeros((4, 1)), quality, cost)
    assert best_mix(prompts, 3.0) == pytest.approx(Mix(0, 2, 0.5))
    assert best_mix(prompts, 9.0) == Mix(2, 2, 0.0)


def test_a_random_mix_gains_nothing_and_the_best_choices_do() -> None:
    prompts, rng = simulated_prompts(4000, seed=1), np.random.default_rng(2)
    mixed = [Run(np.arange(4000), rng.integers(2, size=4000)) for _ in range(10)]
    assert abs(outcome(prompts, mixed, 0.3).gain) < 0.005
    best = Run(np.arange(4000), (prompts.quality[:, 1] > prompts.quality[:, 0] + 0.1).astype(np.int64))
    assert outcome(prompts, [best], 0.3).gain > 0.05


def test_largest_mean_is_over_long_starts() -> None:
    costs = np.concatenate([np.full(500, 4.0), np.zeros(500), np.full(500, 3.0)])
    assert largest_mean(costs) == pytest.approx(3500 / 1500)
    assert largest_mean(costs[:1200]) == pytest.approx(2600 / 1200)


def test_changes_are_in_the_second_half_of_one_model() -> None:
    prompts = long_traffic(simulated_prompts(100, seed=1), seed=1)
    for changed, table in ((worse(prompts).quality, prompts.quality), (dearer(prompts).cost, prompts.cost)):
        is_changed = changed != table
        assert is_changed[HALF:, CHANGED].mean() > 0.99
        is_changed[HALF:, CHANGED] = False
        assert not is_changed.any()


@pytest.mark.statistics
@pytest.mark.usefixtures("compiled_now")
def test_router_keeps_the_limit_and_beats_the_best_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing_runs, "ORDERS", 2)
    benchmark, traffic = simulated_prompts(400, seed=1), simulated_prompts(1500, seed=2)
    found = outcome(traffic, orders(benchmark, traffic, 0.3), 0.3)
    assert found.overspent < 1.05
    assert found.gain > 0.005


def test_baselines_keep_near_the_limit() -> None:
    benchmark, traffic = simulated_prompts(1000, seed=1), simulated_prompts(3000, seed=2)
    greedy = outcome(traffic, [epsilon_greedy(benchmark, traffic, 0.3, seed=1)], 0.3)
    offline = outcome(traffic, [trained_offline(benchmark, traffic, 0.3)], 0.3)
    assert abs(greedy.gain) < 0.01 < offline.gain
    assert greedy.cost == pytest.approx(0.3, rel=0.1)
    assert offline.cost == pytest.approx(0.3, rel=0.1)


@pytest.mark.usefixtures("compiled_now")
def test_real_prompts_gain_is_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    if DATA not in os.environ:
        pytest.skip(f"needs the folder of the real prompts in {DATA}")
    monkeypatch.setattr(routing_runs, "ORDERS", 3)
    benchmark, traffic = read_prompts(Path(os.environ[DATA]))
    found = outcome(traffic, orders(benchmark, traffic, 0.3), 0.3)
    assert abs(found.gain - 0.030) < 0.01
    assert found.overspent < 1.03
