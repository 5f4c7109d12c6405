"""Logs of simulated routers, with the true quality and cost of each model."""

from pathlib import Path

import numpy as np
import polars as pl

MODELS = ("small", "medium", "large")
COSTS = np.array([0.05, 0.5, 2.0])


def expected_quality(x: np.ndarray) -> np.ndarray:
    """The mean quality of each model for prompts with one feature, (n, models)."""
    return np.stack([0.55 + 0.2 * x, 0.75 + 0.05 * x, np.full(len(x), 0.85)], axis=1)


def simulated_routes(rows: int, seed: int) -> pl.DataFrame:
    """Return the log of a router that prefers the small model for prompts with a large feature.

    The columns are those of `PromptRouter(log=FOLDER)`.
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, rows)
    probabilities = np.where(x[:, None] > 0.0, [0.7, 0.2, 0.1], [0.2, 0.6, 0.2])
    chosen = (rng.random(rows)[:, None] > probabilities.cumsum(axis=1)).sum(axis=1)
    quality = np.clip(expected_quality(x)[np.arange(rows), chosen] + rng.normal(0.0, 0.1, rows), 0.0, 1.0)
    cost = COSTS[chosen] * rng.lognormal(-0.125, 0.5, rows)
    return pl.DataFrame(
        {
            "event_id": [f"e{row}" for row in range(rows)],
            "timestamp": np.arange(rows, dtype=float),
            "model": [MODELS[each] for each in chosen],
            "drawn": [True] * rows,
            "models": [[*MODELS]] * rows,
            "probabilities": probabilities.tolist(),
            "features": np.stack([np.ones(rows), x], axis=1).tolist(),
            "quality": quality,
            "cost": cost,
        }
    )


def written(frame: pl.DataFrame, folder: Path) -> Path:
    """Write a log as two files, the later one first by its name; return the folder."""
    folder.mkdir(exist_ok=True)
    half = len(frame) // 2
    frame[half:].write_parquet(folder / "routes-1.parquet")
    frame[:half].write_parquet(folder / "routes-2.parquet")
    return folder
