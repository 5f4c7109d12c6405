"""Tests compile what they play for long, and nothing in the background: most of them are over before."""

import os

import pytest

os.environ.setdefault("GLBANDITS_COMPILE", "on-demand")


@pytest.fixture
def compiled_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile before the first call: for tests that play for long."""
    monkeypatch.setenv("GLBANDITS_COMPILE", "now")
