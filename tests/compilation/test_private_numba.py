"""Each private part of Numba works, no other module names one, and without them public Numba does the work."""

import ast
import os
import pkgutil
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import types
from numba.extending import overload

import glbandits
from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.compilation import private_numba
from glbandits.compilation.numba_support import VECTOR
from glbandits.compilation.private_numba import PARTS, TESTED

SOURCE = Path(glbandits.__file__).parent
ROOT = Path(__file__).parents[2]
PRIVATE_ATTRIBUTES = {name for part in PARTS for name in re.split("[.:]", part)} | {
    "_cache", "_impl", "_jit_options", "_kernels", "call_conv", "cgutils", "core", "meminfo", "overloads",
}  # fmt: skip


def test_all_parts_are_known() -> None:
    assert private_numba.missing_part() is None
    assert private_numba.IS_KNOWN


@pytest.mark.parametrize("part", PARTS)
def test_missing_part_is_noticed(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = pkgutil.resolve_name

    def resolve_others(name: str) -> Any:
        return resolve(name + "_renamed" if name == part else name)

    monkeypatch.setattr(private_numba, "resolve_name", resolve_others)
    assert private_numba.missing_part() == part


def test_untested_version_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba, "version_info", (TESTED[1][0], TESTED[1][1], 0))
    assert "tested version" in str(private_numba.missing_part())


def test_threads_compile_one_after_another() -> None:
    compiled = threading.Event()

    def compile_something() -> None:
        numba.njit(lambda x: x + 1)(1)
        compiled.set()

    thread = threading.Thread(target=compile_something)
    with private_numba.compiler_lock:
        thread.start()
        assert not compiled.wait(0.3)
    thread.join()
    assert compiled.is_set()


def test_processor_has_a_name() -> None:
    assert private_numba.processor()


def checks_bounds() -> bool:
    return False


OPTIONS: Any = {"boundscheck": private_numba.BOUNDS_CHECKS_OF_CALLER}


@overload(checks_bounds, jit_options=OPTIONS, strict=False)
def _compiled_checks_bounds() -> Any:
    checked = private_numba.caller_checks_bounds()
    return lambda: checked


@pytest.mark.parametrize("checked", [False, True])
def test_callee_knows_whether_its_caller_has_bounds_checks(checked: bool) -> None:
    assert numba.njit(boundscheck=checked)(lambda: checks_bounds())() == checked
    assert not private_numba.caller_checks_bounds()  # nothing is being compiled


@pytest.mark.parametrize("packed", [False, True])
def test_symbols_are_called_and_errors_reach_the_caller(packed: bool) -> None:
    def half(values: Floats, index: int) -> float:
        if index < 0:
            raise InvalidInput
        return float(values[index]) / 2

    def half_of(arguments: tuple[Floats, int]) -> float:
        return compiled_half(*arguments)  # type: ignore[no-any-return]

    signature, symbol = types.float64(VECTOR, types.int64), f"glbandits_test_half_{packed}"
    compiled_half: Any = numba.njit(half)
    compiled: Any = numba.njit(half_of) if packed else compiled_half
    compiled.compile((types.Tuple(signature.args),) if packed else signature.args)  # type: ignore[no-untyped-call]
    private_numba.define_symbol(symbol, compiled)
    call: Any = numba.njit(private_numba.call_of(symbol, signature, packed=packed))
    assert call(np.arange(4.0), 3) == 1.5
    assert call(np.arange(4.0), np.uint8(3), "dropped") == 1.5
    with pytest.raises(InvalidInput):
        call(np.arange(4.0), -1)


def test_machine_code_with_other_symbols_is_not_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    identity: Any = numba.njit(lambda x: x)
    identity.compile((types.float64,))
    private_numba.define_symbol("glbandits_test_identity", identity)
    called = private_numba.call_of("glbandits_test_identity", types.float64(types.float64), packed=False)
    for known, files in (([], 0), (["glbandits_test_identity"], 2)):
        caller: Any = numba.njit(cache=True)(called)
        private_numba.cache_only_with(caller, known)
        assert caller(1.0) == 1.0
        assert len(list(tmp_path.rglob("*.nb[ic]"))) == files


def test_arrays_without_owner_are_not_counted() -> None:
    def tail(values: Floats) -> Floats:
        return values[1:]

    def borrowed_tail(values: Floats) -> Floats:
        return uncounted(values)[1:]  # type: ignore[no-any-return]

    uncounted: Any = private_numba.without_owner
    values = np.arange(4.0)
    tail_of_counted, tail_of_uncounted = (
        numba.njit(VECTOR(VECTOR))(function)(values) for function in (tail, borrowed_tail)
    )
    assert np.shares_memory(tail_of_counted, values)
    assert np.shares_memory(tail_of_uncounted, values)
    assert tail_of_counted.base is not None
    assert tail_of_uncounted.base is None


def private_names(path: Path) -> Iterator[str]:
    node: Any
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        for module in modules:
            if module.split(".")[0] in ("llvmlite", "numba") and module not in ("numba", "numba.extending"):
                yield f"{path.name}:{node.lineno} imports {module}"
        if isinstance(node, ast.ImportFrom) and node.module in ("numba", "numba.extending"):
            yield from (f"{path.name}: {name.name}" for name in node.names if name.name in PRIVATE_ATTRIBUTES)
        if isinstance(node, ast.Constant) and re.match(r"(numba\.(core|np)|llvmlite)\b", str(node.value)):
            yield f"{path.name}:{node.lineno} names {node.value!r}"
        if (
            isinstance(node, ast.Attribute)
            and node.attr in PRIVATE_ATTRIBUTES
            and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "private_numba"))
        ):
            yield f"{path.name}:{node.lineno} uses .{node.attr}"


def test_no_other_module_names_a_private_part() -> None:
    others = [path for path in SOURCE.rglob("*.py") if "numba" in path.read_text(encoding="utf-8")]
    others.remove(SOURCE / "compilation" / "private_numba.py")
    assert [name for path in others for name in private_names(path)] == []
    assert len(list(private_names(SOURCE / "compilation" / "private_numba.py"))) > 10


def test_tested_versions_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (oldest, first_untested) = (f"{major}.{minor}" for major, minor in TESTED)
    assert f"numba>={oldest},<{first_untested}" in project["dependencies"]


WITHOUT_PARTS = """
import pkgutil, sys
import numpy as np
resolve = pkgutil.resolve_name
def resolve_others(name):
    if name == "numba.core.targetconfig:ConfigStack.top_or_none":
        raise AttributeError(name)
    return resolve(name)
if {missing}:
    pkgutil.resolve_name = resolve_others
from glbandits import Bandit, InvalidInput
from glbandits.compilation import private_numba
from tests.compilation.careless_policy import Careless
assert private_numba.IS_KNOWN != {missing}
bandit, arms = Bandit(Careless(), dim=3, seed=1), np.eye(3)
choices = []
for _ in range(5):
    choices.append(bandit.choose(arms))
    bandit.learn(arms[choices[-1]], 0.5)
assert bandit._learn.is_compiled
try:
    bandit.learn(arms[0], 7.0)
except InvalidInput as error:
    print("out of range" in str(error), choices, bandit.state.sum())
"""


@pytest.mark.system
def test_without_private_parts_choices_and_bounds_checks_are_the_same(tmp_path: Path) -> None:
    def output(missing: bool) -> str:
        variables = os.environ | {"GLBANDITS_COMPILE": "now", "NUMBA_CACHE_DIR": str(tmp_path)}
        program = WITHOUT_PARTS.format(missing=missing)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=ROOT, env=variables, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert output(missing=True) == output(missing=False)
    assert output(missing=True).startswith("True")  # from the cache


def test_calls_of_two_shared_functions_have_different_names() -> None:
    """Else a process that loads machine code of two others may run the call of one for that of the other."""
    signature = types.float64(types.float64)
    first, second = (private_numba.call_of(f"glbandits_{name}", signature, packed=False) for name in "ab")
    assert first.__qualname__ != second.__qualname__
