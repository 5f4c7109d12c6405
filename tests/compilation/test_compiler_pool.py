"""Several entry points are compiled at the same time, and a process that fails breaks nothing."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
from numba import types
from glbandits.compilation import compiler_pool, entry_point as module
from glbandits.compilation.compiler_pool import compiler_pool as the_pool, core_count
from glbandits.compilation.entry_point import compile_all, entry_point
from glbandits.bandit.entry_points import arms_check_recipe
from glbandits.lab.environments.synthetic import expectation_recipe
from glbandits.maths.links import LINKS
from glbandits.evaluation.models.glm_models import in_place_recipe
compiler_pool.core_count = module.core_count = lambda: 2  # two processes, on any machine
{before}
jobs = [(in_place_recipe, None, part) for part in ("mean", "slope", "antiderivative")]
jobs += [(arms_check_recipe, False), (arms_check_recipe, True), (expectation_recipe, None)]
compile_all(jobs)
values = np.zeros(2)
entry_point(*jobs[0]).call(np.array(LINKS["logistic"].packed), values)
print(all(entry_point(*job).is_compiled for job in jobs), values[0], {after})
"""
PROCESSES = "len([thread for thread in the_pool()._threads if thread.process is not None])"
SEND = """
compiler_pool.SILENT_SECONDS = 20.0
def send():
    while not (threads := the_pool()._threads) or threads[0].process is None:
        time.sleep(0.001)
    time.sleep({seconds})
    os.kill(threads[0].process.pid, signal.{name})
threading.Thread(target=send, daemon=True).start()
"""
KILL, STOP = SEND.format(name="SIGKILL", seconds=0), SEND.format(name="SIGSTOP", seconds=0)
KILL_LATER, STOP_LATER = SEND.format(name="SIGKILL", seconds=1), SEND.format(name="SIGSTOP", seconds=1)
LOSE_THREADS = "compiler_pool._CompilerThread.run = lambda thread: thread._pool.take(thread, None)"
NO_PROCESSES = "sys.executable = '/bin/false'", "sys.executable = '/no/such/file'"


def printed(cache: Path | str, before: str = "", after: str = "0") -> list[str]:
    program = PROGRAM.replace("{before}", before).replace("{after}", after)
    variables = os.environ | {"GLBANDITS_COMPILE": "background", "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.system
def test_several_processes_compile(tmp_path: Path) -> None:
    assert printed(tmp_path, after=PROCESSES) == ["True", "0.5", "2"]
    assert printed(tmp_path, after="len(compiler_pool._pools)") == ["True", "0.5", "0"]  # all is loaded from the cache


@pytest.mark.system
@pytest.mark.parametrize("before", [KILL, KILL_LATER, LOSE_THREADS, *NO_PROCESSES])
def test_failing_process_does_not_break_the_command(before: str, tmp_path: Path) -> None:
    assert printed(tmp_path, before) == ["True", "0.5", "0"]


@pytest.mark.system
@pytest.mark.parametrize("before", [STOP, STOP_LATER])
def test_process_that_hangs_does_not_stop_the_command(before: str, tmp_path: Path) -> None:
    start = time.monotonic()
    assert printed(tmp_path, before)[:2] == ["True", "0.5"]
    assert time.monotonic() > start + 20  # the process was waited for, and then killed


@pytest.mark.system
def test_cache_folder_may_be_missing_or_unwritable(tmp_path: Path) -> None:
    assert printed(tmp_path / "missing" / "folder") == ["True", "0.5", "0"]
    assert list(tmp_path.rglob("*.compiled"))
    (tmp_path / "file").touch()
    assert printed(tmp_path / "file" / "folder") == ["True", "0.5", "0"]
