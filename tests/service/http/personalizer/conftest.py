"""A site for requests of Personalizer's API."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.http.personalizer.personalizer_site import Site


@pytest.fixture(name="site")
def site_fixture(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as site:
        yield site
