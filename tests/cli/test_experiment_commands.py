import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.in_process import glb

MINE = """
title = "Mine"
horizon = 150
repeats = 3
fresh = 5
[problem]
dim = 3
arms = 5
[[policy]]
name = "online-laplace"
grid = { exploration = [0.5, 1.0] }
[[policy]]
name = "sgd-ts"
grid = { step = [0.5, 1.0], block_factor = [3, 5] }
"""


def without_times(page: Path) -> str:
    """The page but for measured seconds, the last two cells of a row, and the command with its folder."""
    text = re.sub(r"(<td>[\d.e-]+</td>){2}</tr>", "SECONDS</tr>", page.read_text(encoding="utf-8"))
    return re.sub(r"glb compare[^<]*", "COMMAND", text)


def test_a_comparison_is_run_once_and_its_report_is_the_same_again(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    first = glb("compare", "mine.toml", "--out", "out", "--jobs", "1", folder=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "Report: out/report.html" in first.stdout
    assert re.search(r"sgd-ts\s+│\s+4\s+│", first.stdout)
    files, page = set((tmp_path / "out/store").iterdir()), (tmp_path / "out/report.html").read_bytes()
    assert glb("compare", "mine.toml", "--out", "out", "--jobs", "1", folder=tmp_path).returncode == 0
    assert set((tmp_path / "out/store").iterdir()) == files
    assert (tmp_path / "out/report.html").read_bytes() == page


def test_a_command_that_was_killed_ends_in_the_same_report(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    words = ["compare", "mine.toml", "--jobs", "1", "--out"]
    assert glb(*words, "whole", folder=tmp_path).returncode == 0
    command = [sys.executable, "-c", "from glbandits.cli.main import main; main()", *words, "killed"]
    for moment in (0, 2, 5):  # killed when so many result files are there
        process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stdout=subprocess.DEVNULL)
        while process.poll() is None and len(list((tmp_path / "killed/store").glob("*.parquet"))) < moment:
            time.sleep(0.002)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert glb(*words, "killed", folder=tmp_path).returncode == 0
    assert without_times(tmp_path / "killed/report.html") == without_times(tmp_path / "whole/report.html")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("paper", "simulatoin"), "unknown experiment 'simulatoin'; did you mean 'simulation'"),
        (("paper", "all", "news"), "all stands for every experiment, so it is named alone; got all, news"),
        (("paper", "simulation", "--protocol", "fress"), "unknown protocol 'fress'; did you mean 'fresh'"),
        (("paper", "simulation", "--engine", "rayy"), "unknown engine 'rayy'; did you mean 'ray'"),
        (("paper", "forest-1", "--data", "nowhere.data"), "nowhere.data"),
        (("paper", "news", "--news", "nowhere.gz"), "nowhere.gz"),
        (("compare", "nowhere.toml"), "nowhere.toml"),
        (("diagnose", "nowhere.npy"), "nowhere.npy"),
    ],
)
def test_wrong_words_leave_nothing_behind(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    run = glb(*words, folder=tmp_path)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr
    assert not list(tmp_path.rglob("*.html"))
