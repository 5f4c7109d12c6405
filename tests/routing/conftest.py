"""Fixtures of routers."""

import pytest


@pytest.fixture(name="plain_python")
def plain_python_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")
