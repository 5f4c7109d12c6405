"""Logs of the same decisions with dense and with sparse arms."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from glbandits import SparseRows
from glbandits.common.arrays import Floats, Ints
from glbandits.evaluation import LoggedData, RowArms, SparseArms

DIM = 6


def world(rows: int, seed: int = 0) -> dict[str, Any]:
    """A log with one to three arms in each row, some without a nonzero feature; dense features are (rows, 3, DIM)."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, size=rows)
    arms = (rng.random((rows, 3, DIM)) < 0.3) * rng.normal(size=(rows, 3, DIM))
    arms[np.arange(3) >= counts[:, np.newaxis]] = 0.0
    chosen = rng.integers(counts)
    scores = arms[np.arange(rows), chosen] @ np.array([2.0, -2.0, 1.0, 0.0, 0.5, -1.0])
    rewards = rng.random(rows) < 1 / (1 + np.exp(-scores))
    probabilities = (np.arange(3) < counts[:, np.newaxis]) / counts[:, np.newaxis]
    return {"chosen": chosen, "rewards": rewards, "probabilities": probabilities, "arms": arms, "counts": counts}


def dense_and_sparse(rows: int, seed: int = 0) -> tuple[LoggedData, LoggedData]:
    made = world(rows, seed)
    arms, counts = made.pop("arms"), made.pop("counts")
    there = np.arange(3) < counts[:, np.newaxis]
    return tuple(  # type: ignore[return-value]
        LoggedData(**made, arms=kind, link="logistic")
        for kind in (RowArms(arms, counts), SparseArms(sparse.csr_array(arms[there]), counts))
    )


def as_dense(rows: SparseRows, dim: int = DIM) -> Floats:
    made: Any = sparse.csr_array((rows.values, rows.indices, rows.indptr), shape=(rows.row_count, dim)).toarray()
    return np.asarray(made)


def write_dsjson(path: Path, rows: int, seed: int = 0) -> Path:
    """A log of three topics and two ages. Young users reward sports."""
    rng, lines = np.random.default_rng(seed), []
    for _ in range(rows):
        young, arm, count = bool(rng.random() < 0.5), int(rng.integers(2)), int(rng.integers(2, 4))
        reward = float(rng.random() < (0.8 if young == (arm == 1) else 0.2))
        actions = [{"topic": topic} for topic in ("news", "sports", "art")[:count]]
        order: Ints = np.roll(np.arange(1, count + 1), -arm)
        line = {
            "_label_cost": -reward,
            "_label_probability": 1 / count,
            "_label_Action": arm + 1,
            "a": order.tolist(),
            "p": [1 / count] * count,
            "c": {
                "age": "young" if young else "old",
                "_multi": actions,
            },
        }
        lines.append(json.dumps(line))
    path.write_text("\n".join(lines))
    return path
