"""Fixtures of forest cover files."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from glbandits.lab.environments import forest_cover as module
from tests.lab.environments.forest_cover_files import groups, lines, text


@pytest.fixture
def clear_file_cache() -> Iterator[None]:
    """Clear the cache of forest cover files after a test."""
    yield
    for function in (module._arms_of_file, module._patches, module._labels):
        function.cache_clear()


@pytest.fixture
def covtype(tmp_path: Path) -> Path:
    path = tmp_path / "covtype.data"
    path.write_text(text(lines()))
    return path


@pytest.fixture
def clusters(tmp_path: Path) -> Path:
    path = tmp_path / "clusters.npz"
    np.savez_compressed(path, labels=groups().astype(np.int8))
    return path
