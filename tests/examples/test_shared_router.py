"""examples/shared_router.py: two gateways and a server."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from examples.shared_router import MODELS, simulated_prompts

from glbandits import Bandit, Optimist
from glbandits.common.arrays import Floats
from glbandits.evaluation.readers.service_export import read_export
from glbandits.features import Hashing
from glbandits.routing.audit_log import read_routes
from glbandits.service.domain.loop_config import LoopConfig

PROGRAM = Path(__file__).parent.parent.parent / "examples/shared_router.py"


def test_loop_learns_coefficients_of_each_model_for_the_embedding() -> None:
    _, [embedding], *_ = simulated_prompts(1, gateway=1)
    bandit = Bandit(Optimist(link="identity"), dim=LoopConfig().width, seed=0)
    hashing = Hashing(width=bandit.dim)

    def rows(values: list[float]) -> Floats:
        return hashing.vectors({"embedding": values}, [{"model": name, "_cost": 1.0} for name in MODELS])

    for sign in (1.0, -1.0) * 100:  # small is good for one prompt, and medium for the opposite one
        features = rows((sign * embedding).tolist())
        bandit.learn_batch(features[:2], [0.5 + sign / 2, 0.5 - sign / 2])
    for sign in (1.0, -1.0):
        small, medium = bandit.predict(rows((sign * embedding).tolist()))[:2]
        assert sign * (small - medium) > 0.8


def test_conversations_have_several_prompts_of_one_gateway() -> None:
    conversations, embeddings, quality, cost = simulated_prompts(3000, gateway=1)
    assert len(set(conversations.tolist())) == pytest.approx(2000, abs=100)
    assert len(embeddings) == len(quality) == len(cost) == 3000
    np.testing.assert_allclose(cost.mean(axis=0), [0.027, 0.48, 0.72, 12.8], rtol=0.08)
    assert quality[:, 0].mean() < quality[:, 1:].mean(axis=0).min() - 0.1


@pytest.mark.system
def test_gateways_share_a_loop_whose_log_can_be_audited(tmp_path: Path) -> None:
    words = [sys.executable, str(PROGRAM), "--prompts", "120", "--limit", "0.4"]
    environment = os.environ | {"GLBANDITS_COMPILE": "never"}
    run = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("240 prompts, quality 0.")
    assert set(re.findall(r"always (\w+) +(reward|metric:cost) ", run.stdout)) >= {
        (model, what) for model in ("small", "medium") for what in ("reward", "metric:cost")
    }
    [folder] = (tmp_path / "out").iterdir()
    with pytest.warns(UserWarning, match="repeats of sticky units"):
        log = read_export(folder / "log", reward="metric:cost")
    costs: dict[str, list[float]] = {name: [] for name in MODELS}
    for block in log.blocks():
        assert block.row_arm_names is not None
        chosen = block.row_arm_names.indices[np.arange(len(block.chosen)), block.chosen]
        for arm, cost in zip(chosen, block.rewards, strict=True):
            costs[log.schema.names[arm]].append(cost)
    assert 0.0 < np.mean(costs["small"]) < 0.1
    assert np.mean(costs["medium"]) > 0.2
    routes = read_routes(folder / "log")
    assert routes.quality is not None
    assert len(routes.cost) == len(log)
    assert any("a session kept its model" in note for note in routes.notes)
