"""The laws run as plain Python, where compiling every policy would take longest.

`make check` compares machine code with plain Python, and `make test-slow` repeats the laws on machine code.
"""

import pytest

from tests import compile_on_demand


@pytest.fixture(autouse=True)
def plain_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile nothing, unless the environment asks for it. A test may still ask for `compiled_now`."""
    monkeypatch.setattr(compile_on_demand, "is_enabled", False)
