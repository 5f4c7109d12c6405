"""Compiled code stays inside its arrays and reads no freed memory. `make check` runs it.

Every policy plays at many sizes with Numba's bounds checks, in two processes whose C library overwrites freed memory,
each with another byte. A read of freed memory then gives other numbers in both of them.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from glbandits.policies import POLICIES

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.safety,
    pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="overwriting freed memory is a feature of glibc"),
]

USE_AFTER_FREE = """
import numpy as np
from numba import njit
from glbandits.compilation.private_numba import without_owner
@njit
def sums(rounds):
    total = 0.0
    for size in range(20, 20 + rounds):
        scratch = np.ones(size)
        view = without_owner(scratch)[: size // 2]  # the scratch array is released here, after its last use
        other = np.full(size // 2 + 7, 3.0)
        total += view.sum() + other[0]
    return total
print(sums(50))
"""


def overwriting(byte: int) -> dict[str, str]:
    """Have glibc overwrite memory when it is freed. Its per-thread cache would keep small blocks from that."""
    return {"GLIBC_TUNABLES": f"glibc.malloc.tcache_count=0:glibc.malloc.perturb={byte}"}


def output(arguments: list[str], **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("name", POLICIES)
def test_policy_stays_in_bounds_and_reads_no_freed_memory(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    # Machine code with bounds checks must not be mixed up with the other kind in Numba's cache.
    cache = str(tmp_path_factory.getbasetemp() / "checked")
    program, checks = ["-m", "tests.safety.exercise", name], {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": cache}
    assert output(program, **checks, **overwriting(165)) == output(program, **checks, **overwriting(90))


def test_the_memory_check_finds_a_use_after_free() -> None:
    """The defect that `Optimist.choose` once had: a view without an owner of an array that the function allocated."""
    assert len({output(["-c", USE_AFTER_FREE], **overwriting(byte)) for byte in (0, 165, 90)}) > 1
