"""Shared functions are compiled once, are never missing, and give the results of plain Python."""

import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import types

from glbandits import Link, SgdTs
from glbandits.bandit.entry_points import learn_recipe
from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.compilation import machine_code, shared_functions
from glbandits.compilation.machine_code import compile_cached
from glbandits.compilation.numba_support import READ_VECTOR, VECTOR, jittable
from glbandits.compilation.recipe import needs
from glbandits.compilation.shared_functions import shared
from glbandits.maths.links import LINKS, LinkFunctions
from glbandits.policies import UcbGlm


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Compile again in every run: code from the cache cannot be inspected."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))


@shared(types.float64(READ_VECTOR, types.int64))
def mean_at(values: Floats, index: int) -> float:
    if index == -1:
        raise InvalidInput
    return float(values[index])


@shared(VECTOR(READ_VECTOR))
def means(values: Floats, link: LinkFunctions) -> Floats:
    result = np.empty(values.shape[0])
    for i in range(values.shape[0]):
        result[i] = link.mean(mean_at(values, i))
    return result


def entry_of(link: Link | LinkFunctions) -> Callable[[Floats], Floats]:
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def entry(values: Floats) -> Floats:
        return means(values, LinkFunctions(mean, slope, antiderivative))

    return entry


def compiled_with(link: Link | LinkFunctions) -> Any:
    return compile_cached(entry_of(link), signature=VECTOR(VECTOR), name="test")


def user_link(scale: float) -> Link:
    return Link(
        name="scaled",
        mean=lambda z: scale * z,
        slope=lambda z: scale,  # noqa: ARG005
        antiderivative=lambda z: 0.5 * scale * z * z,
        inverse=lambda mean: mean / scale,
        lipschitz=scale,
    )


def calls(compiled: Any, name: str) -> bool:
    (text,) = compiled.inspect_llvm().values()
    return f"glbandits_{name}_" in text


def test_compiled_code_calls_shared_functions_with_the_results_of_python() -> None:
    values = np.linspace(-3.0, 3.0, 7)
    for link in (LINKS["logistic"], LINKS["identity"], user_link(2.0), user_link(3.0)):
        compiled = compiled_with(link)
        assert calls(compiled, "means")
        assert np.array_equal(compiled(values), entry_of(link)(values))


def test_functions_of_no_link_are_compiled_into_the_caller() -> None:
    functions = LinkFunctions(*(jittable(function) for function in (lambda z: -z, lambda z: z, lambda z: z)))
    compiled = compiled_with(functions)
    assert not calls(compiled, "means")
    assert compiled(np.ones(3)).tolist() == [-1.0, -1.0, -1.0]


def test_arguments_of_other_types_are_compiled_into_the_caller() -> None:
    def second_of_every_other(values: Floats) -> float:
        return mean_at(values[::2], 1)

    compiled = compile_cached(second_of_every_other, signature=types.float64(VECTOR), name="test")
    assert not calls(compiled, "mean_at")
    assert compiled(np.arange(4.0)) == 2.0


def test_errors_of_shared_functions_reach_the_caller() -> None:
    def entry(values: Floats, index: int) -> float:
        return mean_at(values, index) if values.shape[0] > 0 else math.nan

    signature = types.float64(VECTOR, types.int64)
    checked: Any = compile_cached(entry, signature=signature, name="test", check_bounds=True)
    assert calls(checked, "mean_at")
    assert checked(np.arange(3.0), 2) == 2.0
    with pytest.raises(IndexError):
        checked(np.arange(3.0), 3)
    with pytest.raises(InvalidInput):
        checked(np.arange(3.0), -1)


def test_machine_code_with_unknown_symbols_is_not_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def entry(values: Floats) -> float:
        return mean_at(values, 0)

    def cached(function: Any) -> list[Path]:
        compiled = compile_cached(function, signature=types.float64(VECTOR), name="test")
        assert calls(compiled, "mean_at")
        return list(tmp_path.rglob("test_shared_functions*.nbi"))

    def same(values: Floats) -> float:
        return mean_at(values, 0)

    (index,) = cached(entry)
    monkeypatch.setattr(machine_code, "needed_forms", lambda *_arguments: [])
    assert cached(same) == [index]


def test_links_may_be_created_while_others_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reached(set[Any]):
        """Creates a link at each comparison, as another thread could."""

        def issuperset(self, functions: Any) -> bool:
            user_link(float(len(shared_functions._links)))
            return super().issuperset(functions)

    monkeypatch.setattr(shared_functions, "set", Reached, raising=False)
    reached: Any = [means, mean_at]
    assert [form.function for form in shared_functions.needed_forms(reached, False)] == [mean_at]


def test_needs_are_jobs_for_other_processes_in_the_order_of_their_needs() -> None:
    jobs = needs(learn_recipe(UcbGlm, None))
    order = [job[1].__name__ for job in jobs]
    assert order.index("set_gram") < order.index("fit_or_diverge") < order.index("refit")
    assert len(order) == len(set(order))
    assert pickle.loads(pickle.dumps(jobs)) == jobs
    assert needs(learn_recipe(SgdTs, None))[-1][1].__name__ == "fit_or_diverge"
    assert needs(learn_recipe(SgdTs, user_link(2.0)))[0][3]  # with bounds checks


MODULE = """
import numpy as np
from numba import types
from glbandits.compilation.recipe import Recipe, compile_now, is_cached, needs
from glbandits.compilation.numba_support import VECTOR
from glbandits.compilation.shared_functions import shared

@shared(types.float64(VECTOR))
def total(values):
    return values.sum() * 2.0

def recipe():
    def entry(values):
        return total(values) + 1.0
    return Recipe(entry, types.float64(VECTOR), "test")

def main():
    entry, (build, *arguments) = recipe(), *needs(recipe())
    print(is_cached(build(*arguments)), is_cached(entry))
    compiled = compile_now(entry)
    print(compiled(np.ones(3)), sum(compiled.stats.cache_hits.values()))
"""


@pytest.mark.system
def test_machine_code_from_the_cache_finds_its_shared_functions(tmp_path: Path) -> None:
    module = tmp_path / "shared_module.py"
    module.write_text(MODULE)

    def run() -> list[str]:
        paths = os.pathsep.join([str(tmp_path), *sys.path])
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": paths}
        program = [sys.executable, "-c", "import shared_module; shared_module.main()"]
        done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert run() == ["False", "False", "7.0", "0"]
    assert run() == ["True", "True", "7.0", "1"]
    for marker in (tmp_path / "cache").rglob("*"):
        if "total" in marker.name:
            marker.unlink()  # the cache has the caller, but not the shared function
    assert run()[2:] == ["7.0", "1"]
    module.write_text(MODULE.replace("* 2.0", "* 3.0"))
    assert run() == ["False", "False", "10.0", "0"]
