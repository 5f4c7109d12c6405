"""The real sample of the Open Bandit data, if it is available."""

import os
import tarfile
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest


def sample(behavior: str, campaign: str) -> Path:
    """A folder of the sample. Skips the test if it is not available."""
    folder = _unpacked()
    if folder is None:
        pytest.skip("GLBANDITS_DATA is unset, or holds no open_bandit/obd_sample*.tar.xz")
    return folder / behavior / campaign


@cache
def _unpacked() -> Path | None:
    data = os.environ.get("GLBANDITS_DATA")
    found = sorted(Path(data).glob("open_bandit/obd_sample*.tar.xz")) if data else []
    if not found:
        return None
    place = Path(mkdtemp(prefix="obd-"))
    with tarfile.open(found[-1]) as archive:
        archive.extractall(place, filter="data")
    return place / "obd_sample"
