"""Errors of missing optional dependencies: one sentence that names the extra."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from glbandits import GlbanditsError, MissingExtra
from glbandits.environments import Synthetic
from glbandits.environments.classification import ClassificationTable
from glbandits.evaluation import Columns, SklearnReward, estimate_propensities, evaluate, read_table
from glbandits.extras import needed_for
from glbandits.parallel import check_engine
from glbandits.simulation import simulate


def table(*, propensity: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {"arm": ["a", "b"] * 50, "reward": [0, 1] * 50, "age": np.arange(100)}
    return columns | ({"propensity": [0.5] * 100} if propensity else {})


def estimate() -> None:
    estimate_propensities(read_table(table(propensity=False), Columns(propensity=None, context=("age",))))


def use_sklearn_reward() -> None:
    log = read_table(table(propensity=True), Columns(context=("age",)))
    evaluate(log, "a", "dr", model=SklearnReward(Ridge()))


MISSING: dict[str, tuple[str, str, Callable[[], object]]] = {
    "plot": ("matplotlib", "lab", lambda: simulate("uniform", Synthetic(), 10, 1, jobs=1).plot()),
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
    with pytest.raises(MissingExtra, match=rf"needs \S+\. Run pip install 'glbandits\[{extra}\]'") as caught:
        use()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, GlbanditsError)
    assert isinstance(caught.value, ImportError)


BLOCK = "import sys\nfor name in {modules!r}: sys.modules[name] = None\nimport {package}\n"


@pytest.mark.parametrize(
    ("package", "module"),
    [
        ("glbandits.evaluation", "polars"),
        ("glbandits.evaluation", "joblib"),
        ("glbandits.experiments", "polars"),
        ("glbandits.reports", "plotly"),
        ("glbandits.reports", "matplotlib"),
        ("glbandits.simulation", "joblib"),
        ("glbandits.parallel", "joblib"),
    ],
)
def test_package_without_its_dependency_names_the_extra(package: str, module: str) -> None:
    code = BLOCK.format(modules=[module], package=package)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    last = run.stderr.strip().splitlines()[-1]
    assert last == f"glbandits.errors.MissingExtra: {package} needs {module}. Run pip install 'glbandits[lab]'."


@pytest.mark.parametrize(
    ("statement", "what", "module"),
    [
        ("from glbandits.serving import create_app", "glbandits.serving.create_app", "starlette"),
        ("from glbandits.serving import Settings", "glbandits.serving.Settings", "msgspec"),
        ("from glbandits.serving.client import Client", "glbandits.serving.client", "msgspec"),
    ],
)
def test_service_without_its_dependency_names_the_extra(statement: str, what: str, module: str) -> None:
    code = f"import sys\nsys.modules[{module!r}] = None\n{statement}\n"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    last = run.stderr.strip().splitlines()[-1]
    assert last == f"glbandits.errors.MissingExtra: {what} needs {module}. Run pip install 'glbandits[serve]'."


def test_core_needs_no_extra() -> None:
    missing = ["joblib", "matplotlib", "plotly", "polars", "sklearn", "msgspec", "starlette", "typer", "rich"]
    code = BLOCK.format(modules=missing, package="glbandits") + "glbandits.Bandit('optimist', dim=2)._repr_html_()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_other_import_errors_are_unchanged() -> None:
    with pytest.raises(ModuleNotFoundError, match="no glbandits.x") as caught, needed_for("this", "lab"):
        raise ModuleNotFoundError("no glbandits.x", name="glbandits.x")
    assert not isinstance(caught.value, MissingExtra)


def test_inner_message_wins() -> None:
    with pytest.raises(MissingExtra, match=r"^inner needs ray"), needed_for("outer", "lab"), needed_for("inner", "ray"):
        raise ModuleNotFoundError(name="ray")


def test_error_keeps_the_name_of_the_module() -> None:
    with pytest.raises(MissingExtra) as caught, needed_for("it", "lab"):
        raise ModuleNotFoundError(name="sklearn.base")
    assert caught.value.name == "sklearn.base"
