import io
import time

import numpy as np
import pytest

from glbandits import Optimist
from glbandits.common.display import progress_lines as module
from glbandits.common.display.progress_lines import (
    TimeLeft,
    drawn_by,
    is_watched,
    live_progress,
    progress_lines,
    shown_progress,
)
from glbandits.evaluation import FixedArms, LoggedData, evaluate, train, tune


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class NotebookOutput(io.StringIO):
    """The output of a cell, as ipykernel defines it."""

    __module__ = "ipykernel.iostream"


def terminal_as_stderr(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """No fixture: pytest replaces stderr between the set-up and the test."""
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    return terminal


def wait_for_lines(stream: io.StringIO, count: int) -> None:
    end = time.monotonic() + 20
    while stream.getvalue().count("\n") < count and time.monotonic() < end:
        time.sleep(0.005)


def test_lines_appear_while_the_block_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_as_stderr(monkeypatch)
    monkeypatch.setattr(module, "NEXT_SECONDS", 0.01)
    with progress_lines(lambda: "Working", first=0.01):
        wait_for_lines(terminal, 3)
    lines = terminal.getvalue().splitlines()
    assert len(lines) >= 3
    assert lines[0] == "Working (0 s)"
    time.sleep(0.05)
    assert len(terminal.getvalue().splitlines()) <= len(lines) + 1


def test_a_short_block_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_as_stderr(monkeypatch)
    with progress_lines(lambda: "Working"):
        pass
    assert terminal.getvalue() == ""


def test_only_the_inner_block_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_as_stderr(monkeypatch)
    monkeypatch.setattr(module, "NEXT_SECONDS", 0.01)
    with progress_lines(lambda: "Learning", first=0.0):
        with progress_lines(lambda: "Compiling", first=0.01):
            wait_for_lines(terminal, 4)
        inner = terminal.getvalue().splitlines()
        wait_for_lines(terminal, len(inner) + 2)
    assert all(line.startswith("Compiling") for line in inner[1:])
    assert terminal.getvalue().splitlines()[-1].startswith("Learning")


def test_pipes_and_files_get_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", pipe := io.StringIO())
    with progress_lines(lambda: "Working", first=0.0):
        time.sleep(0.05)
    assert pipe.getvalue() == ""
    pipe.close()
    assert not is_watched()
    monkeypatch.setattr("sys.stderr", None)
    assert not is_watched()


def test_notebooks_get_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", cell := NotebookOutput())
    with progress_lines(lambda: "Working", first=0.0):
        wait_for_lines(cell, 1)
    assert cell.getvalue().startswith("Working")


def test_a_given_function_replaces_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_as_stderr(monkeypatch)
    reports: list[tuple[int, int]] = []
    with shown_progress(lambda done, total: reports.append((done, total)), "Working") as report:
        report(1, 2)
        time.sleep(0.02)
    assert (reports, terminal.getvalue()) == ([(1, 2)], "")


def test_train_evaluate_and_tune_show_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_as_stderr(monkeypatch)

    def slow_lines(describe: object, first: float = 0.0) -> object:
        assert first in (0.0, 0.5)
        labels.append(describe())  # type: ignore[operator]
        return original(lambda: "", first=1e9)

    labels: list[str] = []
    original = module.progress_lines
    monkeypatch.setattr(module, "progress_lines", slow_lines)
    chosen = np.arange(60) % 2
    rewards = chosen.astype(np.float64)
    log = LoggedData(chosen=chosen, rewards=rewards, propensities=np.full(60, 0.5), arms=FixedArms(np.eye(2), rows=60))
    train(log, Optimist())
    evaluate(log, "uniform", ["ips"])
    with pytest.warns(UserWarning, match="effective"):
        tune([Optimist(), "uniform"], log, seeds=1)
    assert labels == ["optimist learns: 0%", "Evaluation: 0%", "Tuning: 0%"]
    assert terminal.getvalue() == ""


def test_live_line_is_overwritten_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_as_stderr(monkeypatch)
    monkeypatch.setattr(module, "LIVE_SECONDS", 0.001)
    with live_progress(lambda: ("compiling 2 policies: 1 of 2", 3.0, 12.4)):
        while terminal.getvalue().count("\r") < 3:
            time.sleep(0.001)
    shown = terminal.getvalue().split("\r")
    assert shown[1] == shown[2] == "compiling 2 policies: 1 of 2, about 9 s left"
    assert shown[-2:] == [" " * len(shown[1]), ""]


def test_live_progress_uses_the_bar_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIVE_SECONDS", 0.001)
    reports: list[tuple[str, float, float, float | None]] = []
    with drawn_by(lambda *report: reports.append(report)), live_progress(lambda: ("compiling", 1.0, 2.0)):
        while not reports:
            time.sleep(0.001)
    assert reports[0] == ("compiling", 1.0, 2.0, 1.0)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_time_left_is_true_if_the_cost_of_rows_changes(power: float) -> None:
    now = 0.0
    time_left = TimeLeft(lambda: now)
    for step in range(1, 31):
        now = 100 * (step / 100) ** power
        left = time_left(step / 100)
    assert left == pytest.approx(100 - now, rel=0.05)


def test_time_left_starts_again_with_another_piece_of_work() -> None:
    now = 0.0
    time_left = TimeLeft(lambda: now)
    for share, now in ((0.0, 0.0), (0.5, 10.0), (1.0, 20.0), (0.1, 30.0), (0.4, 33.0)):  # noqa: B007
        left = time_left(share)
    assert left == pytest.approx(6.0)
