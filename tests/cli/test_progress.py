import io
from typing import Any

import pytest
from rich.console import Console

from glbandits.cli import progress
from glbandits.cli.progress import time_bar, work_bar


@pytest.mark.parametrize("bar", [work_bar, time_bar])
def test_progress_in_a_pipe_goes_to_stderr_only(
    bar: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", -1.0)
    piped = io.StringIO()
    with bar(Console(file=piped)) as report:
        report("row [1]", 1.0, 4.0)
    assert piped.getvalue() == ""
    assert "row [1]" in (printed := capsys.readouterr().err)
    assert "25%" in printed
