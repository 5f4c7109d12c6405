import io
import time

import numpy as np
import pytest

from glbandits import Optimist
from glbandits.common.display import progress_lines as module
from glbandits.common.display.progress_lines import (
    TimeLeft,
    is_watched,
    progress_lines,
)
from glbandits.evaluation import FixedArms, LoggedData, evaluate, train, tune


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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


def test_pipes_and_files_get_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", pipe := io.StringIO())
    with progress_lines(lambda: "Working", first=0.0):
        time.sleep(0.05)
    assert pipe.getvalue() == ""
    pipe.close()
    assert not is_watched()
    monkeypatch.setattr("sys.stderr", None)
    assert not is_watched()


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


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_time_left_is_true_if_the_cost_of_rows_changes(power: float) -> None:
    now = 0.0
    time_left = TimeLeft(lambda: now)
    for step in range(1, 31):
        now = 100 * (step / 100) ** power
        left = time_left(step / 100)
    assert left == pytest.approx(100 - now, rel=0.05)
