import io

import pytest
from rich.console import Console

from glbandits.cli.progress import work_bar


def test_progress_in_a_pipe_goes_to_stderr_only(capsys: pytest.CaptureFixture[str]) -> None:
    piped = io.StringIO()
    with work_bar(Console(file=piped)) as report:
        report("arm:coat: row [1]", 1.0, 4.0)
    assert piped.getvalue() == ""
    assert "arm:coat: row [1]" in (printed := capsys.readouterr().err)
    assert "25%" in printed


def test_each_step_prints_a_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with work_bar(Console(file=io.StringIO())) as report:
        for label, done in (("a", 0), ("b", 0), ("b plays", 5), ("b plays", 6), ("c", 6), ("c plays", 7)):
            report(label, done, 10)
    assert capsys.readouterr().err.splitlines() == ["a: 0%", "b: 0%", "c: 60%, about 1 s left"]
