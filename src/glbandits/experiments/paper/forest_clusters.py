"""Forest cover from the whole file, clustered once: KMeans takes minutes, and every process would run it again."""

from pathlib import Path

import numpy as np

from glbandits.environments import ForestCover


def forest_cover(scenario: int, version: str, data: Path | None, work: Path) -> ForestCover:
    """The shipped part; or the whole file, with its clusters kept in the folder `work`."""
    if data is None:
        return ForestCover(scenario=scenario, version=version)
    kept = work / f"{data.name}-clusters-{scenario}-{version}.npz"
    if not kept.exists() or kept.stat().st_mtime < data.stat().st_mtime:
        labels = ForestCover(scenario=scenario, version=version, data=data).labels()
        work.mkdir(parents=True, exist_ok=True)
        half_written = kept.with_suffix(".part.npz")
        np.savez_compressed(half_written, labels=labels)
        half_written.replace(kept)
    return ForestCover(scenario=scenario, version=version, data=data, clusters=kept)
