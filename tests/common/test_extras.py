"""Errors of missing optional dependencies: one sentence that names the extra."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from glbandits import GlbanditsError, MissingExtra
from glbandits.common.extras import needed_for
from glbandits.common.parallel import check_engine
from glbandits.evaluation import Columns, SklearnReward, estimate_propensities, evaluate, read_table
from glbandits.lab import Synthetic, simulate
from glbandits.lab.environments.classification import ClassificationTable
from tests.service.runtime.loops.loop_helpers import Clock, play_rounds, small_loop


def table(*, propensity: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {"arm": ["a", "b"] * 50, "reward": [0, 1] * 50, "age": np.arange(100)}
    return columns | ({"propensity": [0.5] * 100} if propensity else {})


def estimate() -> None:
    estimate_propensities(read_table(table(propensity=False), Columns(propensity=None, context=("age",))))


def use_sklearn_reward() -> None:
    log = read_table(table(propensity=True), Columns(context=("age",)))
    evaluate(log, "a", "dr", model=SklearnReward(Ridge()))


MISSING: dict[str, tuple[str, str, Callable[[], object]]] = {
    "plot": ("altair", "lab", lambda: simulate("uniform", Synthetic(), 10, 1, jobs=1).plot()),
    "ray": ("ray", "ray", lambda: check_engine("ray", 1)),
    "propensities": ("sklearn", "lab", estimate),
    "reward model": ("sklearn", "lab", use_sklearn_reward),
    "bundled table": ("sklearn", "lab", lambda: ClassificationTable.bundled("iris")),
}


@pytest.mark.parametrize("name", MISSING)
def test_missing_module_names_the_extra_in_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, extra, use = MISSING[name]
    for loaded in [each for each in sys.modules if each.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "glbandits.common.display.charts", raising=False)
    with pytest.raises(
        MissingExtra, match=rf"needs \S+\. In a clone of glbandits, run pip install '\.\[{extra}\]'"
    ) as caught:
        use()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, GlbanditsError)
    assert isinstance(caught.value, ImportError)


BLOCK = "import sys\nfor name in {modules!r}: sys.modules[name] = None\nimport {package}\n"


def last_line_without(module: str, code: str) -> str:
    """The last line on stderr of a Python process that runs the code and cannot import the module."""
    code = f"import sys\nsys.modules[{module!r}] = None\n{code}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    return run.stderr.strip().splitlines()[-1]


@pytest.mark.system
@pytest.mark.parametrize(
    ("package", "module", "extra"),
    [
        ("glbandits.evaluation", "polars", "lab"),
        ("glbandits.lab", "joblib", "lab"),
        ("glbandits.service.client", "httpx2", "client"),
    ],
)
def test_package_without_its_dependency_names_the_extra(package: str, module: str, extra: str) -> None:
    message = f"{package} needs {module}. In a clone of glbandits, run pip install '.[{extra}]'."
    assert last_line_without(module, f"import {package}") == f"glbandits.common.errors.MissingExtra: {message}"


OPEN_POSTGRES = """
from glbandits.service.storage.open_store import open_store
open_store("postgresql://host/shop", durability="process")
"""


@pytest.mark.parametrize(
    ("module", "code", "message"),
    [
        (
            "starlette",
            "from glbandits.service import create_app",
            "glbandits.service needs starlette. In a clone of glbandits, run pip install '.[serve]'.",
        ),
        (
            "msgspec",
            "import glbandits.service.storage.open_store",
            "the store of a service needs msgspec. In a clone of glbandits, run pip install '.[serve]'.",
        ),
        (
            "psycopg",
            OPEN_POSTGRES,
            "a PostgreSQL store needs psycopg. In a clone of glbandits, run pip install '.[postgres]'.",
        ),
    ],
)
def test_service_without_its_dependency_names_the_extra(module: str, code: str, message: str) -> None:
    assert last_line_without(module, code) == f"glbandits.common.errors.MissingExtra: {message}"


@pytest.mark.system
@pytest.mark.parametrize(
    ("command", "module", "project", "extra"),
    [
        ("serve", "uvicorn", "uvicorn", "serve"),
        ("demo", "httpx2", "httpx2", "serve"),
        ("store keys list", "msgspec", "msgspec", "serve"),
        ("simulate", "joblib", "joblib", "lab"),
        ("paper", "altair", "altair", "lab"),
    ],
)
def test_command_does_not_start_without_its_extra(
    command: str, module: str, project: str, extra: str, tmp_path: Path
) -> None:
    code = f"import sys\nsys.modules[{module!r}] = None\nsys.argv = ['glb', *{command.split()!r}]\n"
    code += "from glbandits.cli.main import main\nmain()"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
    )
    assert run.returncode == 2
    assert run.stderr.startswith("glb: ")
    assert run.stderr.endswith(f" needs {project}. In a clone of glbandits, run pip install '.[{extra}]'.\n")
    assert list(tmp_path.iterdir()) == []
    assert command != "serve" or module != "uvicorn" or run.stdout == ""


LAB_ONLY = ["altair", "joblib", "sklearn", "vl_convert"]
SERVE_ONLY = ["httptools", "httpx2", "prometheus_client", "starlette", "uvicorn", "uvloop"]


@pytest.mark.system
@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (("policies",), LAB_ONLY),
        (("store", "export", "found", "--store", "events.sqlite"), LAB_ONLY),
        (("policies",), SERVE_ONLY),
        (("compile", "uniform"), SERVE_ONLY),
    ],
    ids=["policies with serve", "export with serve", "policies with lab", "compile with lab"],
)
def test_command_needs_only_its_extra(words: tuple[str, ...], missing: list[str], tmp_path: Path) -> None:
    if "export" in words:
        loop, store = small_loop(tmp_path, clock := Clock(), width=8)
        play_rounds(loop, store, clock, 20)
        store.close()
    code = f"import sys\nfor name in {missing!r}: sys.modules[name] = None\nsys.argv = ['glb', *{words!r}]\n"
    code += "from glbandits.cli.main import main\nmain()"
    variables = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "GLBANDITS_COMPILE": "background"}
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
        env=variables,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.system
def test_core_needs_no_extra() -> None:
    missing = ["altair", "joblib", "polars", "sklearn", "msgspec", "starlette", "typer", "rich"]
    code = BLOCK.format(modules=missing, package="glbandits") + "glbandits.Bandit('optimist', dim=2)._repr_html_()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_other_import_errors_are_unchanged() -> None:
    with pytest.raises(ModuleNotFoundError, match="no glbandits.x") as caught, needed_for("this", "lab"):
        raise ModuleNotFoundError("no glbandits.x", name="glbandits.x")
    assert not isinstance(caught.value, MissingExtra)
