"""What the project offers stays small, documented and used: public names, commands, and marks of tests.

A public name is one that users import. The pages in docs/api list all of them; their sections "Results" list classes
that users receive.
"""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

from glbandits.cli.app import COMMANDS, GROUPS

ROOT = Path(__file__).resolve().parent.parent
NOT_PAGES = ("api", "decisions")
API = [
    re.split(r"^## Results$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[0]
    for page in sorted((ROOT / "docs" / "api").glob("*.md"))
]
PAGES = [ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name not in NOT_PAGES)]
MARKS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]["markers"]
MODULE = re.compile(r"^\.\. automodule:: (\S+)\n((?:   :.*\n)*)", re.MULTILINE)
OBJECT = re.compile(r"^\.\. (?:auto\w+|py:\w+):: (glbandits(?:\.\S+)?)\.(\w+)$", re.MULTILINE)
IMPORT = re.compile(r"^(?:>>> )?from (glbandits[\w.]*) import (\([^)]*\)|[^\n(]*)", re.MULTILINE)
SETUP = ROOT / "docs" / "service-api.md"
"""Its first block, which is hidden on the site, makes a store with parts of the service."""


def public_names() -> set[tuple[str, str]]:
    """Return the modules and names that docs/api lists."""
    found = {("glbandits", name) for name in importlib.import_module("glbandits").__all__}
    for page in API:
        found.update(OBJECT.findall(page))
        for module, options in MODULE.findall(page):
            listed = re.search(r":members: (\S.*)", options)
            if ":no-members:" not in options:
                names = listed[1].split(", ") if listed else importlib.import_module(module).__all__
                found.update((module, name) for name in names)
    return found


PUBLIC = public_names()


def test_public_names_and_commands_stay_few() -> None:
    packages = {module for page in API for module, _ in MODULE.findall(page)}
    names = {name for module, name in PUBLIC if module in packages} - {"__version__"}
    assert 100 < len(names) <= 120
    assert len({name for _, name in PUBLIC} - names) <= 17  # of inner modules
    assert len({words.split()[0] for words in (*COMMANDS, *GROUPS)}) <= 14


def test_changelog_is_short() -> None:
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split()) <= 600


def test_documented_imports_are_in_the_api_reference() -> None:
    for page in PAGES:
        if page != SETUP:
            for module, names in IMPORT.findall(page.read_text(encoding="utf-8")):
                for name in re.findall(r"\w+", re.sub(r"\.\.\.|#.*", "", names)):
                    assert (module, name) in PUBLIC, f"{page.name}: from {module} import {name}"


def test_every_public_name_is_used_by_a_page_or_a_test() -> None:
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    words = {word for path in (*PAGES, *tests) for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    assert {name for _, name in PUBLIC} <= words


@pytest.mark.parametrize("mark", [mark.partition(":")[0] for mark in MARKS])
def test_a_target_runs_the_tests_of_each_mark(mark: str) -> None:
    chosen = re.findall(r'-m "([^"]+)"', (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert re.search(rf"(?<!not )\b{mark}\b", " ".join(chosen))
