"""How the tests compile, and which of them run in one process.

Tests compile only code that they run for long. They compile nothing in the background, because most tests end first.

Several processes run the tests (`make test`). Tests in one process share compiled code, servers, browsers and logs. So
all tests of a file run in one process, except for the laws: there, all tests of one policy do.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from glbandits.compilation import entry_point
from tests import compile_on_demand

os.environ.setdefault("GLBANDITS_COMPILE", "never")
compile_on_demand.install()
settings.register_profile("no deadline", deadline=None)  # a busy machine must not fail a test
settings.load_profile("no deadline")

ROOT = Path(__file__).parents[1]
POLICIES = sorted(
    path.stem.replace("_", "-") for path in (ROOT / "src/glbandits/policies/algorithms").glob("[a-z]*.py")
)
BY_POLICY = ("tests/laws/", "tests/safety/", "tests/evaluation/learning/test_every_policy_on_a_log.py")
"""Where the tests of each policy are a group of their own."""
SAME_GROUP = {
    "tests/examples/test_prompt_routing.py": "optimist",
    "tests/policies/algorithms/test_optimist.py": "optimist",
    "tests/policies/shared/test_half_life_selection.py": "optimist",
    "tests/test_drift_benchmark.py": "optimist",
    "tests/test_routing_benchmark.py": "optimist",
    "tests/lab/paper/test_cost.py": "cost",
    "tests/lab/paper/test_theory.py": "cost",
    "tests/evaluation/test_policy_comparison.py": "evaluation report",
    "tests/evaluation/report/test_evaluation_report.py": "evaluation report",
    "tests/evaluation/report/test_evaluation_report_browser.py": "evaluation report",
    "tests/lab/report/test_experiment_report.py": "experiment report",
    "tests/lab/report/test_experiment_report_browser.py": "experiment report",
}
"""Files that compile the same code, or look at the same results."""

LOOPS = ("tests/service/runtime/", "tests/service/export/")
"""Tests that play the default policy in a loop of the service."""
LONG_PAGES = {
    "README.md": "statistics",
    "docs/beyond-linear.md": "statistics",
    "docs/evaluate.md": "statistics",
    "docs/from-csv-to-bandit.md": "statistics",
    "docs/tutorials/changing-world.md": "statistics",
    "docs/tutorials/headlines.md": "statistics",
    "docs/tutorials/prices.md": "statistics",
    "docs/tutorials/reproducing-the-paper.md": "statistics",
    "docs/tutorials/routing-prompts.md": "statistics",
}
"""The marks of pages whose examples simulate for long, or wait for a server."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark pages, which cannot mark themselves."""
    for item in items:
        mark = LONG_PAGES.get(item.nodeid.partition("::")[0])
        if mark is not None:
            item.add_marker(mark)


def group_of(nodeid: str) -> str:
    """Return the group of a test. One process runs all tests of a group."""
    file, _, test = nodeid.partition("::")
    if file.startswith(BY_POLICY):
        return max((name for name in POLICIES if name in test), key=len, default=file)
    if file.startswith(LOOPS):
        return "loops"
    return SAME_GROUP.get(file, file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute groups of tests to the processes.

    The mark `xdist_group` would be simpler, but pytest-xdist 3.8 ignores it with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    if config.getvalue("dist") != "loadgroup":
        return None
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = group_of
    return scheduler


@pytest.fixture
def plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile nothing: for tests whose subject is not compiled code, and which plain Python passes in seconds."""
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")
    monkeypatch.setattr(compile_on_demand, "is_enabled", False)


@pytest.fixture
def compiled_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile before the first call: for tests that play for long. Forget the plain functions of earlier tests."""
    monkeypatch.setenv("GLBANDITS_COMPILE", "now")
    for key in [key for key, entry in entry_point._entries.items() if not entry.is_compiled]:
        del entry_point._entries[key]
