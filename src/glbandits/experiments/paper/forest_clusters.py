"""Forest cover from the whole file, clustered once: KMeans takes minutes, and every process would run it again."""

from hashlib import file_digest
from pathlib import Path

import numpy as np

from glbandits.environments import ForestCover


def forest_cover(scenario: int, version: str, data: Path | None, work: Path) -> ForestCover:
    """The shipped part; or the whole file, with its clusters cached in the folder `work`.

    The name of the cache file contains a hash of the data, so that another data file never gets these clusters.
    """
    if data is None:
        return ForestCover(scenario=scenario, version=version)
    cached = work / f"{data.name}-{_digest(data)}-clusters-{scenario}-{version}.npz"
    if not cached.exists():
        labels = ForestCover(scenario=scenario, version=version, data=data).labels()
        work.mkdir(parents=True, exist_ok=True)
        partial = cached.with_suffix(".part.npz")
        np.savez_compressed(partial, labels=labels)
        partial.replace(cached)
    return ForestCover(scenario=scenario, version=version, data=data, clusters=cached)


def _digest(path: Path) -> str:
    """The first 16 hex digits of the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()[:16]
