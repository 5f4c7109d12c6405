"""examples/prompt_routing.py on simulated prompts, and on the real ones if their folder is given."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from examples.prompt_routing import (
    Mix,
    Prompts,
    Router,
    best_mix,
    new_router,
    outcome,
    play,
    read_prompts,
    route_orders,
    simulated_prompts,
)

from glbandits import Bandit

ROOT = Path(__file__).parent.parent.parent
DATA = "GLB_LLM_ROUTING"
"""Environment variable: the folder of val_k4.jsonl.xz and test_k4.jsonl.xz."""


@pytest.fixture
def real_prompts() -> tuple[Prompts, Prompts]:
    if DATA not in os.environ:
        pytest.skip(f"needs the folder of the real prompts in {DATA}")
    return read_prompts(Path(os.environ[DATA]))


def test_simulated_means_are_those_of_the_real_data() -> None:
    prompts = simulated_prompts(20_000, seed=1)
    np.testing.assert_allclose(prompts.quality.mean(axis=0), [0.795, 0.924, 0.925, 0.933], atol=0.01)
    np.testing.assert_allclose(prompts.cost.mean(axis=0), [0.028, 0.513, 0.882, 15.05], rtol=0.05)


def test_leaked_benchmark_changes_the_small_model_only() -> None:
    true, leaked = (simulated_prompts(5000, seed=1, leaked=leaked).quality.mean(axis=0) for leaked in (0.0, 0.15))
    assert leaked[0] > true[0] + 0.1
    np.testing.assert_allclose(leaked[1:], true[1:], atol=0.01)


@pytest.mark.statistics
@pytest.mark.usefixtures("compiled_now")
def test_router_keeps_the_limit_and_beats_the_best_mix() -> None:
    # Over 20 orders of these prompts the gain is 0.02 to 0.03 and the cost within 1 % of the limit.
    benchmark, traffic = simulated_prompts(400, seed=1), simulated_prompts(1500, seed=2)
    found = outcome(traffic, *route_orders(benchmark, traffic, 0.3, weight=400, orders=2), 0.3)
    assert found.overspent < 1.05
    assert found.gain > 0.005


@pytest.mark.statistics
@pytest.mark.usefixtures("compiled_now")
def test_mean_cost_is_bounded_by_the_price() -> None:
    traffic = simulated_prompts(150, seed=3)
    router = new_router(traffic, 0.1, 1, traffic.models)
    run = play(router, traffic)
    limit, step = router.budget.per_decision, router.budget.step
    assert run.cost.mean() <= limit * (1 + limit * router.budget.price / (step * len(traffic))) + 1e-12


def test_probabilities_are_those_of_the_offered_models() -> None:
    traffic = simulated_prompts(200, seed=4)
    router = new_router(traffic, 0.3, 1, ("small", "fast", "large"), floor=0.1)
    run = play(router, traffic, arrivals={100: ("medium", 0.5)})
    np.testing.assert_allclose(run.probabilities.sum(axis=1), 1.0)
    before, after = run.probabilities[:100], run.probabilities[100:]
    assert (before[:, 1] == 0).all()
    assert (after[:, 1] >= 0.1 / 3 - 1e-12).all()
    assert (run.probabilities[:, 3] == 0).all()  # its cost is more than 10 times the limit
    assert (run.probabilities[np.arange(200), run.chosen] > 0).all()


def test_budget_is_saved_with_the_model() -> None:
    router = Router(2, limit=1.0, seed=1)
    router.add_model("a", 0.5)
    router.learn(router.decide(np.ones(2)), quality=0.5, cost=3.0)
    assert Bandit.from_bytes(router.bandit.to_bytes()).budget == router.budget
    assert router.budget.price == pytest.approx(0.01)


def test_router_refuses_more_models_than_it_has_room_for() -> None:
    router = Router(2, limit=1.0, room=1)
    router.add_model("a", 0.5)
    with pytest.raises(ValueError, match="room for 1 models"):
        router.add_model("b", 0.5)


def test_best_mix_spends_what_it_may() -> None:
    quality, cost = np.tile([0.0, 0.5, 1.0], (4, 1)), np.tile([1.0, 4.0, 5.0], (4, 1))
    prompts = Prompts(("a", "b", "c"), np.zeros((4, 1)), quality, cost)
    assert best_mix(prompts, 3.0) == Mix(0, 2, 0.5)
    assert best_mix(prompts, 9.0) == Mix(2, 2, 0.0)


@pytest.mark.statistics
def test_program_prints_its_tables() -> None:
    command = [sys.executable, "examples/prompt_routing.py", "--orders", "2", "--limits", "0.3", "--limits-only"]
    result = subprocess.run(
        [*command, "--weight", "20"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    assert "gain over the best mix" in result.stdout
    assert "uniform" in result.stdout


def test_real_prompts_gain_is_as_published(real_prompts: tuple[Prompts, Prompts]) -> None:
    benchmark, traffic = real_prompts
    found = outcome(traffic, *route_orders(benchmark, traffic, 0.3, weight=2000, orders=3), 0.3)
    assert abs(found.gain - 0.027) < 0.01
    assert found.overspent < 1.02
