"""Tests compile what they play for long, and nothing in the background: most of them are over before."""

import os

import pytest

os.environ.setdefault("GLBANDITS_COMPILE", "on-demand")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests of a file in one process, unless they are in another group.

    Otherwise every process would start the servers and browsers, and compute the logs, that the tests of a file share.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(item.config.rootpath).as_posix()))


@pytest.fixture
def compiled_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile before the first call: for tests that play for long."""
    monkeypatch.setenv("GLBANDITS_COMPILE", "now")
