"""Entry points start as plain Python and become machine code, with the same results."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import types
from numba.core.compiler_lock import global_compiler_lock

from glbandits import Bandit, InvalidInput, LinUcb
from glbandits.common.arrays import Floats
from glbandits.common.errors import GlbanditsError
from glbandits.compilation import entry_point as module
from glbandits.compilation.entry_point import EntryPoint, compile_mode, entry_point
from glbandits.compilation.numba_support import VECTOR
from glbandits.compilation.recipe import Recipe, compile_now, is_cached

SWITCH = """
import time
import numpy as np
from glbandits import Bandit, Uniform
bandit, choices, started = Bandit(Uniform(), dim=2, seed=1), [], time.monotonic()
arms = np.ones((50, 2))
plain = not bandit._choose.is_compiled
while not (bandit._choose.is_compiled and bandit._learn.is_compiled) and time.monotonic() < started + 100:
    choices.append(bandit.choose(arms))
    bandit.learn(arms[0], 1.0)
choices += [bandit.choose(arms) for _ in range(20)]
other = Bandit(Uniform(), dim=2, seed=1)  # compiled from the start
print(plain, bandit._choose.is_compiled, choices == [other.choose(arms) for _ in choices], bandit.state[0] > 0)
{more}
"""


def printed(program: str, cache: Path, **environment: str) -> list[str]:
    variables = os.environ | {"GLBANDITS_COMPILE": "background", "NUMBA_CACHE_DIR": str(cache)} | environment
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.system
def test_bandit_switches_to_machine_code_in_the_middle(tmp_path: Path) -> None:
    assert printed(SWITCH.format(more=""), tmp_path) == ["True", "True", "True", "True"]


@pytest.mark.system
def test_thread_compiles_if_the_process_cannot_start(tmp_path: Path) -> None:
    program = "import sys; sys.executable = '/bin/false'\n" + SWITCH.format(more="")
    assert printed(program, tmp_path) == ["True", "True", "True", "True"]


@pytest.mark.system
def test_child_of_a_fork_has_its_own_compiler(tmp_path: Path) -> None:
    program = """
import os, sys, warnings
import numpy as np
warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads
from glbandits import Bandit, Uniform
bandit, arms = Bandit(Uniform(), dim=2, seed=1), np.ones((50, 2))
expected = bandit.copy()
child = os.fork()
if not child:
    choose = bandit._choose.compiled()
    os._exit(0 if bandit.choose(arms) == expected.choose(arms) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert printed(program, tmp_path) == ["0"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork_waits_while_a_thread_compiles() -> None:
    compiling = threading.Event()

    def compile_slowly() -> None:
        with global_compiler_lock:
            compiling.set()
            time.sleep(0.2)

    thread = threading.Thread(target=compile_slowly)
    thread.start()
    compiling.wait()
    child = os.fork()
    if not child:
        os._exit(0 if global_compiler_lock._lock.acquire(blocking=False) else 1)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with global_compiler_lock:  # the parent has released it
        pass


@pytest.mark.system
def test_nothing_is_printed_in_a_pipe_and_no_process_remains(tmp_path: Path) -> None:
    program = (
        "import numpy as np; from glbandits import Bandit, Uniform\n"
        "from glbandits.compilation.compiler_pool import _pools\n"
        "bandit = Bandit(Uniform(), dim=2, seed=1); bandit.choose(np.ones((3, 2)))\n"
        "import time; time.sleep(1.0); print(_pools[0]._threads[0].process.pid)"
    )
    (pid,) = printed(program, tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def fragile_recipe() -> Recipe:
    """1 / x in place, where plain Python raises for 0 and compiled code does not."""

    def invert(values: Floats) -> int:
        values[0] += 1.0
        for i in range(values.shape[0]):
            values[i] = 1.0 / float(values[i])
        return 7

    return Recipe(invert, types.int64(VECTOR), "test of a division", nogil=False)


def test_machine_code_repeats_a_call_that_overflows() -> None:
    entry, values = entry_point(fragile_recipe), np.array([0.0, 2.0, 0.0])
    assert entry._call_plain(values) == 7
    np.testing.assert_array_equal(values, [1.0, 0.5, np.inf])  # the first number was raised once, not twice


def test_plain_function_rejects_types_like_machine_code() -> None:
    entry = entry_point(fragile_recipe)
    read_only = np.ones(2)
    read_only.flags.writeable = False
    for wrong in (np.ones(2, dtype=np.float32), np.ones((2, 1)), np.ones(4)[::2], [1.0], read_only):
        for form in (entry._call_plain, entry.compiled()):
            with pytest.raises(TypeError):
                form(wrong)


@pytest.mark.system
@pytest.mark.parametrize("mode", ["now", "never"])
def test_modes_give_the_same_decisions(mode: str, tmp_path: Path) -> None:
    program = """
import numpy as np
from glbandits import Bandit, LinUcb
bandit, rng = Bandit(LinUcb(), dim=3, seed=1), np.random.default_rng(1)
for _ in range(50):
    arms = rng.normal(size=(5, 3))
    bandit.learn(arms[bandit.choose(arms)], float(rng.random()))
print(bandit.state.tobytes().hex(), bandit._choose.is_compiled)
"""
    state, compiled = printed(program, tmp_path, GLBANDITS_COMPILE=mode)
    assert compiled == str(mode == "now")
    expected = Bandit(LinUcb(), dim=3, seed=1)
    rng = np.random.default_rng(1)
    for _ in range(50):
        arms = rng.normal(size=(5, 3))
        expected.learn(arms[expected.choose(arms)], float(rng.random()))
    assert state == expected.state.tobytes().hex()


def test_unknown_mode_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "later")
    with pytest.raises(InvalidInput, match="GLBANDITS_COMPILE must be one of .*; got 'later'"):
        compile_mode()


def test_disabled_numba_means_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "now")
    assert compile_mode() == "now"
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert compile_mode() == "never"


def failing_recipe() -> Recipe:
    def fail(values: Floats) -> int:
        return int(np.einsum("i->", values))

    return Recipe(fail, types.int64(VECTOR), "test of a failure", nogil=False)


def test_failed_compilation_is_raised_at_every_call() -> None:
    entry: Any = entry_point(failing_recipe)
    for _ in range(2):
        with pytest.raises(GlbanditsError, match="test of a failure cannot be compiled"):
            entry._machine_code()
    with pytest.raises(GlbanditsError, match="test of a failure cannot be compiled"):
        entry.call(np.ones(2))


def sums_recipe() -> Recipe:
    """Running sums, whose rounding shows the order of the additions."""

    def add(total: Floats, values: Floats) -> None:
        for i in range(values.shape[0]):
            total[0] += values[i]

    return Recipe(add, types.void(VECTOR, VECTOR), "test of pieces", nogil=False)


def played(entry: EntryPoint, values: Floats, rows_later: int = 0) -> tuple[float, list[int]]:
    total, lengths = np.zeros(1), []
    for part, add in entry.pieces(len(values), rows_later):
        add(total, values[part])
        lengths.append(part.stop - part.start)
    return float(total[0]), lengths


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "background")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", bytes(100)], ids=["empty", "zeros"])
def test_damaged_cache_is_compiled_again(ending: str, content: bytes, tmp_path: Path) -> None:
    compile_now(sums_recipe())
    (damaged,) = tmp_path.rglob(f"*.{ending}")
    damaged.write_bytes(content)
    for hits in (0, 1):
        compiled: Any = compile_now(sums_recipe())
        assert sum(compiled.stats.cache_hits.values()) == hits


def uncachable_recipe() -> Recipe:
    table = np.arange(2e6)  # Numba copies smaller ones

    def first(values: Floats) -> float:
        return float(values[0] + table[1])

    return Recipe(first, types.float64(VECTOR), "test of a large table")


@pytest.mark.usefixtures("empty_cache")
def test_code_that_numba_cannot_cache_is_not_marked_as_cached() -> None:
    recipe = uncachable_recipe()
    with pytest.warns(numba.NumbaWarning, match="Cannot cache"):
        compile_now(recipe)
    assert not is_cached(recipe)
    compile_now(sums_recipe())
    assert is_cached(sums_recipe())


@pytest.mark.usefixtures("empty_cache")
def test_few_rows_are_not_compiled() -> None:
    entry, values = EntryPoint(sums_recipe, ()), np.random.default_rng(1).normal(size=1000)
    assert played(entry, values) == (float(np.add.accumulate(values)[-1]), [1, 2, 4, 8, 16, 32, 64, 128, 256, 489])
    assert not entry.is_ready


@pytest.mark.usefixtures("empty_cache")
def test_loop_switches_to_machine_code_if_many_rows_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_SECONDS", 0.0)
    entry, values = EntryPoint(sums_recipe, ()), np.random.default_rng(1).normal(size=1000)
    total, lengths = played(entry, values, rows_later=10**9)
    assert (total, lengths) == (float(np.add.accumulate(values)[-1]), [1, 999])
    assert entry.is_compiled
    assert played(entry, values) == (total, [1000])
