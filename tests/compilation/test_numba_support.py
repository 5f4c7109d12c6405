"""The cache of compiled code is used and never stale, and bounds checks cover all user code."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import glbandits
import glbandits.common.arrays
from glbandits.compilation.numba_support import jittable

PROGRAM = """
import numpy as np
from glbandits import Bandit, Uniform
bandit = Bandit(Uniform(), dim=2, seed=1)
print(bandit.choose(np.ones((50, 2))), sum(bandit._choose.compiled().stats.cache_hits.values()))
"""


def run(program: str, **environment: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(glbandits.__file__).parent, tmp_path / "src/glbandits", ignore=ignore)
    return tmp_path / "src"


@pytest.mark.system
def test_machine_code_is_cached_until_called_code_changes(source: Path, tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "GLBANDITS_COMPILE": "now"}
    arm, hits = run(PROGRAM, **environment)
    assert hits == 0
    assert run(PROGRAM, **environment) == [arm, 1]
    for path, old, new, expected in (
        (
            "policies/algorithms/lin_ucb.py",
            "Write the upper",
            "Write an upper",
            [arm, 1],
        ),  # Uniform does not call it
        ("maths/philox.py", "int(uniform(rng) * size)", "size - 1 - int(uniform(rng) * size)", [49 - arm, 0]),
    ):
        text = (source / "glbandits" / path).read_text()
        assert old in text
        (source / "glbandits" / path).write_text(text.replace(old, new))
        assert run(PROGRAM, **environment) == expected


@pytest.mark.system
def test_read_only_cache_folder_is_tolerated(source: Path) -> None:
    program = "import os; os.environ['NUMBA_CACHE_LOCATOR_CLASSES'] = 'IPythonCacheLocator'\n" + PROGRAM
    assert run(program, PYTHONPATH=str(source), GLBANDITS_COMPILE="now")[1] == 0


def test_import_loads_no_heavy_package() -> None:
    heavy = ("altair", "polars", "typer", "joblib")
    program = f"import sys, glbandits; print(sum(name in sys.modules for name in {heavy}))"
    assert run(program) == [0]


def test_bounds_checks_reach_called_functions() -> None:
    @jittable
    def inner(values: glbandits.common.arrays.Floats, index: int) -> float:
        return float(values[index])

    @jittable
    def outer(values: glbandits.common.arrays.Floats, index: int) -> float:
        return inner(values, index)

    def entry(values: glbandits.common.arrays.Floats, index: int) -> float:
        return outer(values, index)

    values = np.zeros(3)
    unchecked = numba.njit(boundscheck=False)(entry)
    assert unchecked(values, 2) == 0.0  # compiled first without checks, which must not be taken for the other kind
    checked = numba.njit(boundscheck=True)(entry)
    assert checked(values, 2) == 0.0
    with pytest.raises(IndexError):
        checked(values, 7)


def test_compiled_functions_multiply_instead_of_raising_to_a_power() -> None:
    # Numba compiles x ** 2 to x * x, and Python calls pow: they differ in the last bit for 1 in 1300 floats.
    for path in Path(glbandits.__file__).parent.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            decorators = [ast.unparse(node) for node in getattr(function, "decorator_list", [])]
            if not any(text.startswith(("jittable", "staticmethod", "shared(")) for text in decorators):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
                    assert ast.unparse(node.right) == "1.5", f"{path.name}: {ast.unparse(node)}"
