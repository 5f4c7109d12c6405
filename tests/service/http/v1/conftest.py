"""A site for requests of the API v1."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.http.v1.v1_site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as site:
        yield site
