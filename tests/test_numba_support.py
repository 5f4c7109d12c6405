"""The compiled code on disk: found again, and never stale."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import glbandits

PROGRAM = """
import numpy as np
from glbandits import Bandit, Uniform
from glbandits.bandit.entries import choose_entry
bandit = Bandit(Uniform(), dim=2, seed=1)
print(bandit.choose(np.ones((50, 2))), sum(bandit._choose.stats.cache_hits.values()))
"""


def run(source: Path) -> list[int]:
    environment = os.environ | {"PYTHONPATH": str(source)}
    out = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return [int(word) for word in out.stdout.split()]


def test_a_second_process_finds_the_code_and_an_edit_below_does_not(tmp_path: Path) -> None:
    source = tmp_path / "src"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(glbandits.__file__).parent, source / "glbandits", ignore=ignore)
    arm, hits = run(source)
    assert hits == 0
    assert run(source) == [arm, 1]
    randomness = source / "glbandits/maths/randomness.py"
    text = randomness.read_text()
    assert "int(uniform(rng) * size)" in text
    randomness.write_text(text.replace("int(uniform(rng) * size)", "size - 1 - int(uniform(rng) * size)"))
    assert run(source) == [49 - arm, 0]


def test_a_folder_that_cannot_be_written_to_is_no_obstacle(tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(Path(glbandits.__file__).parent, source / "glbandits", ignore=shutil.ignore_patterns("__pycache__"))
    program = "import os; os.environ['NUMBA_CACHE_LOCATOR_CLASSES'] = 'IPythonCacheLocator'\n" + PROGRAM
    environment = os.environ | {"PYTHONPATH": str(source)}
    out = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert out.stdout.split()[1] == "0"


def test_the_import_is_light() -> None:
    heavy = ("matplotlib", "polars", "typer", "joblib")
    program = f"import sys, glbandits; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
