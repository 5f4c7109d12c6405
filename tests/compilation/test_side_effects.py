"""Functions of users may print and raise errors with values, in machine code that holds no GIL."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
import numpy as np
from numba import types
from glbandits.compilation.numba_support import VECTOR, jittable
from glbandits.compilation.recipe import Recipe, compile_now, is_cached

@jittable
def note(value):
    print(value)
    print("value", value)
    print(f"text {int(value)}")
    if value == 1.0:
        raise ValueError(value)
    if value == 2.0:
        raise ValueError("too large", value)
    if value == 3.0:
        raise KeyError(f"unknown {int(value)}")
    assert value < 4.0, "above 4"
    try:
        if value == 0.5:
            raise ValueError(value)
    except Exception:
        print("caught")

@jittable
def between(value):
    note(value)

def recipe():
    def entry(values):
        print(values)
        between(values[0])
        return values[0]
    return Recipe(entry, types.float64(VECTOR), "noisy", nogil=True, check_bounds=True)

def main():
    entry = recipe()
    print(is_cached(entry))
    compiled = compile_now(entry)
    for value in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0):
        try:
            compiled(np.full(2, value))
        except Exception as error:
            print(repr(error))
"""
EXPECTED = """
[0. 0.] 0.0 value 0.0 text 0
[0.5 0.5] 0.5 value 0.5 text 0 caught
[1. 1.] 1.0 value 1.0 text 1 ValueError(1.0)
[2. 2.] 2.0 value 2.0 text 2 ValueError('too large', 2.0)
[3. 3.] 3.0 value 3.0 text 3 KeyError('unknown 3')
[4. 4.] 4.0 value 4.0 text 4 AssertionError('above 4')
"""


@pytest.mark.system
def test_machine_code_prints_and_raises_with_values(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(MODULE)
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": paths}
    for cached in ("False", "True"):  # compiled, and loaded from the cache
        done = subprocess.run(
            [sys.executable, "-c", "import noisy; noisy.main()"],
            env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [cached, *EXPECTED.split()]


POLICY = """
import numpy as np
from glbandits import Bandit, Uniform

class Noisy(Uniform):
    name = "noisy"

    @staticmethod
    def learn(state, settings, x, reward, rng, link):
        print(reward)
        return state

bandit = Bandit(Noisy(), dim=2, seed=1)
for _ in range(3):
    bandit.learn([1.0, 2.0], 0.25)
assert bandit._learn.is_compiled
"""


@pytest.mark.system
def test_policy_that_prints_rewards_is_compiled_and_plays(tmp_path: Path) -> None:
    (tmp_path / "noisy_policy.py").write_text(POLICY)
    environment = os.environ | {
        "GLBANDITS_COMPILE": "background",
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, "-c", "import noisy_policy"],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-3:] == ["0.25"] * 3
