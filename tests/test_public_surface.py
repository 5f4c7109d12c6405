"""What the project offers stays small: commands of `glb`; and every mark of tests runs in a target of the Makefile."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MARKS = [
    mark.partition(":")[0]
    for mark in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"][
        "markers"
    ]
]


@pytest.mark.parametrize("mark", MARKS)
def test_a_target_runs_the_tests_of_each_mark(mark: str) -> None:
    chosen = re.findall(r'-m "([^"]+)"', (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert re.search(rf"(?<!not )\b{mark}\b", " ".join(chosen))
