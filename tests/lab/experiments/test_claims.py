"""Commands that share a result store share the work."""

import errno
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from glbandits.lab.experiments.claims import Claims
from glbandits.lab.experiments.missing_runs import run_missing
from glbandits.lab.experiments.result_store import ResultStore
from tests.lab.experiments.test_missing_runs import SPECS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")

PLAY = """
import sys, time
from pathlib import Path
from tests.lab.experiments.test_missing_runs import SPECS
from glbandits.lab.experiments import missing_runs
from glbandits.lab.experiments.result_store import ResultStore
folder, jobs = Path(sys.argv[1]), int(sys.argv[2])
missing_runs.TASK_SECONDS = 1e-9  # a task and a file for each run
print("ready", flush=True)
sys.stdin.readline()
missing_runs.run_missing(SPECS, ResultStore(folder / "store"), jobs=jobs)
"""
HOLD = """
import sys, time
from pathlib import Path
from tests.lab.experiments.test_missing_runs import SPECS
from glbandits.lab.experiments.result_store import ResultStore
with ResultStore(Path(sys.argv[1])).claiming() as claim:
    print(len(claim(SPECS[:5])), flush=True)
    time.sleep(600)
"""


def started(program: str, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.system
@pytest.mark.parametrize("jobs", [1, 2])
def test_two_commands_on_one_store_play_each_run_once(jobs: int, tmp_path: Path) -> None:
    commands = [started(PLAY, str(tmp_path), str(jobs)) for _ in range(2)]
    for command in commands:
        assert command.stdout is not None
        assert command.stdout.readline() == "ready\n"
    for command in commands:
        command.communicate("go\n", timeout=120)
    assert [command.returncode for command in commands] == [0, 0]
    keys = pl.read_parquet(tmp_path / "store/*.parquet")["key"]
    assert sorted(keys) == sorted(spec.key for spec in SPECS)
    assert [path.name for path in (tmp_path / "store/.claims").iterdir()] == ["lock"]


@pytest.mark.system
def test_claim_holds_until_its_process_dies(tmp_path: Path) -> None:
    holder = started(HOLD, str(tmp_path))
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "5\n"
        store, labels = ResultStore(tmp_path), list[str]()
        thread = threading.Thread(
            target=run_missing, args=(SPECS, store), kwargs={"jobs": 1, "progress": lambda *p: labels.append(p[0])}
        )
        thread.start()
        wait_until(lambda: "waiting for runs of another command" in labels)
        assert len(store) == len(SPECS) - 5
        time.sleep(0.5)
        assert thread.is_alive()
        holder.send_signal(signal.SIGKILL)
        thread.join(timeout=60)
    finally:
        holder.kill()
        holder.communicate()
    assert len(ResultStore(tmp_path)) == len(SPECS)
    assert [path.name for path in (tmp_path / ".claims").iterdir()] == ["lock"]


def wait_until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_run_is_claimed_by_one_store(tmp_path: Path) -> None:
    with ResultStore(tmp_path).claiming() as of_other:
        with ResultStore(tmp_path).claiming() as claim:
            assert claim(SPECS[:3]) == SPECS[:3]
            assert of_other(SPECS) == SPECS[3:]
        assert claim(SPECS) == []
        assert of_other(SPECS[:3]) == SPECS[:3]


def test_finished_run_is_not_claimed(tmp_path: Path) -> None:
    other = ResultStore(tmp_path)
    run_missing(SPECS[:2], ResultStore(tmp_path), jobs=1)
    with other.claiming() as claim:
        assert claim(SPECS) == SPECS[2:]
    assert SPECS[0] in other


@pytest.mark.filterwarnings("ignore:.* tasks (have been successfully executed|which were still)")
@pytest.mark.parametrize("jobs", [1, 2])
def test_claims_end_when_a_command_is_stopped(jobs: int, tmp_path: Path) -> None:
    def stop(label: str, done: float, _total: float) -> None:
        if done:
            raise KeyboardInterrupt(label)

    with pytest.raises(KeyboardInterrupt):
        run_missing(SPECS, ResultStore(tmp_path), jobs=jobs, progress=stop)
    store = ResultStore(tmp_path)
    left = store.missing(SPECS)
    assert 0 < len(left) < len(SPECS)
    with store.claiming() as claim:
        assert claim(left) == left


def test_nothing_is_claimed_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: Any) -> None:
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr("fcntl.flock", unsupported)
    one, other = ResultStore(tmp_path), ResultStore(tmp_path)
    with one.claiming() as claim, other.claiming() as of_other:
        assert claim(SPECS) == of_other(SPECS) == SPECS
    run_missing(SPECS, one, jobs=1)
    assert other.missing(SPECS) == []


def test_released_keys_are_free(tmp_path: Path) -> None:
    one, other = Claims(tmp_path), Claims(tmp_path)
    with one.of_others():
        one.add(["a", "b"])
    one.remove(["a", "unknown"])
    with other.of_others() as claimed:
        assert claimed == {"b"}
    one.close()
    with other.of_others() as claimed:
        assert claimed == set()
