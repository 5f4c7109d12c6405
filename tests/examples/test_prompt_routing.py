"""examples/prompt_routing.py."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from examples.prompt_routing import BUDGET, MODELS, ask, new_router, play, simulated_prompts

from glbandits.routing import PromptRouter

ROOT = Path(__file__).parent.parent.parent


def test_answers_of_dear_models_are_better() -> None:
    rng, prompts = np.random.default_rng(1), simulated_prompts(3000, seed=3)
    small, fast = (
        np.array([ask(model, prompt, rng) for prompt in prompts]).mean(axis=0) for model in ("small", "fast")
    )
    assert small[0] + 0.05 < fast[0]
    assert small[1] * 20 < fast[1]


@pytest.mark.statistics
@pytest.mark.usefixtures("compiled_now")
def test_router_keeps_the_budget_and_uses_a_new_model() -> None:
    steps = play(new_router(), simulated_prompts(3000, seed=2), {1000: ("medium", 0.4)})
    assert np.mean([step.cost for step in steps]) < 1.05 * BUDGET
    assert "medium" not in [step.model for step in steps[:1000]]
    assert np.mean([step.model == "medium" for step in steps[2000:]]) > 0.2


@pytest.mark.system
def test_program_writes_the_router_and_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "examples/prompt_routing.py", "--out", str(tmp_path), "--prompts", "40"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    assert "40 rows in the log, 20 without a quality" in result.stdout
    assert PromptRouter.load(tmp_path / "router.zip").models == [*MODELS, "medium"]
    log = pl.read_parquet(tmp_path / "routes" / "*.parquet")
    assert log["cost"].null_count() == 0
