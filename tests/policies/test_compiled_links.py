"""A policy is compiled once for all built-in links and noises, and again for each link of a user."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numba
import numpy as np
import pytest
from numba import types

from glbandits import Bandit, Link, Policy
from glbandits.common.arrays import Floats, Generator
from glbandits.compilation import machine_code, recipe
from glbandits.compilation.numba_support import READ_VECTOR
from glbandits.compilation.shared_functions import shared
from glbandits.evaluation.models.glm_models import apply_link
from glbandits.lab import Synthetic, simulate
from glbandits.maths.links import LINKS, LinkFunctions
from glbandits.maths.vectors import add_scaled, dot
from glbandits.policies.contract import AnyLink, StateLayout

LAYOUT = StateLayout()
theta_of = LAYOUT.vector("theta")


@shared(types.float64(READ_VECTOR, READ_VECTOR))
def mean_at(theta: Floats, x: Floats, link: LinkFunctions) -> float:
    return link.mean(dot(x, theta))


class Gradient(Policy):
    """A small policy, which no other test has compiled."""

    name: ClassVar[str] = "gradient"
    layout: ClassVar[StateLayout] = LAYOUT
    link: AnyLink = "logistic"

    @staticmethod
    def theta(state: Floats, settings: Any, dim: int, draw: int, rng: Generator) -> Floats:  # noqa: ARG004
        return theta_of(state, dim)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:  # noqa: ARG004
        theta = theta_of(state, x.shape[0])
        add_scaled(theta, 0.1 * link.slope(0.0) * (reward - mean_at(theta, x, link)), x)
        return state


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is compiled, or loaded from the cache, during the test."""
    names, compile_cached = list[str](), machine_code.compile_cached

    def recorded(function: Any, **options: Any) -> Any:
        names.append(options["name"])
        return compile_cached(function, **options)

    monkeypatch.setattr(machine_code, "compile_cached", recorded)
    monkeypatch.setattr(recipe, "compile_cached", recorded)
    return names


def slow_tail() -> Link:
    """Return a link of a user, which has no built-in equivalent."""
    return Link(
        name="cauchit",
        mean=lambda z: 0.5 + math.atan(z) / math.pi,
        slope=lambda z: 1 / (math.pi * (1 + z * z)),
        antiderivative=lambda z: z / 2 + (z * math.atan(z) - math.log(1 + z * z) / 2) / math.pi,
        inverse=lambda mean: math.tan(math.pi * (mean - 0.5)),
        lowest_reward=0.0,
        highest_reward=1.0,
        lipschitz=1 / math.pi,
    )


def play_everything(policy: Any) -> None:
    """Call each function of a Bandit, and simulate."""
    bandit, arms = Bandit(policy, dim=2, seed=1), np.array([[1.0, 0.0], [0.0, 1.0]])
    bandit.learn_batch(arms, [0.0, 1.0])
    for _ in range(3):
        bandit.learn(arms[bandit.choose(arms)], 1.0)
    bandit.probabilities(arms)
    simulate(policy, Synthetic(dim=2, arms=2, link=policy.link), 20, 1, jobs=1)


@pytest.mark.usefixtures("compiled_now")
def test_second_built_in_link_compiles_nothing(compiled: list[str]) -> None:
    play_everything(Gradient(link="logistic"))
    assert "gradient" in compiled
    compiled.clear()
    for link in ("identity", "probit", "log"):  # with normal, 0/1 and Poisson rewards
        play_everything(Gradient(link=link))
    assert compiled == []
    simulate(Gradient(link=slow_tail()), Synthetic(dim=2, arms=2), 20, 1, jobs=1)
    assert "gradient, cauchit" in compiled


@pytest.mark.usefixtures("compiled_now")
def test_functions_of_all_built_in_links_are_compiled_once(compiled: list[str]) -> None:
    scores = np.linspace(-2.0, 2.0, 5)
    apply_link(LINKS["probit"], "slope", scores)
    compiled.clear()
    for link in LINKS.values():
        assert apply_link(link, "slope", scores).tolist() == [link.slope(z) for z in scores.tolist()]
    assert compiled == []


@pytest.mark.usefixtures("compiled_now")
@pytest.mark.parametrize("link", ["identity", "logistic", "probit", "log", slow_tail()], ids=str)
def test_compiled_policy_equals_plain_policy(link: str | Link) -> None:
    problem, policy = Synthetic(dim=3, arms=4, link=link), Gradient(link=link)
    compiled, plain = (simulate(policy, problem, 60, 2, jobs=1, compiled=flag) for flag in (True, False))
    np.testing.assert_array_equal(compiled.choices, plain.choices)


MODULE = """
import math, sys
from joblib import parallel_config
from glbandits import EpsilonGreedy, Link
from glbandits.lab import Synthetic, simulate

def mean(z): return 0.5 + math.atan(z) / math.pi
def slope(z): return 1 / (math.pi * (1 + z * z))
def antiderivative(z): return z / 2 + (z * math.atan(z) - math.log(1 + z * z) / 2) / math.pi
def inverse(p): return math.tan(math.pi * (p - 0.5))
def cauchit():
    return Link(name="cauchit", mean=mean, slope=slope, antiderivative=antiderivative, inverse=inverse,
                lowest_reward=0.0, highest_reward=1.0, lipschitz=1 / math.pi)

def main():
    policy, results = EpsilonGreedy(link=cauchit(), fit="online"), []
    for backend in ("threading", "loky"):
        with parallel_config(backend):
            results.append(simulate(policy, Synthetic(dim=3, arms=4), 40, 2, jobs=2).choices.tolist())
    print(results[0] == results[1], results[0][0])
"""


@pytest.mark.system
def test_own_links_run_in_threads_in_processes_and_from_the_cache(tmp_path: Path) -> None:
    (tmp_path / "own_link.py").write_text(MODULE)
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": paths}
    run: Callable[[], str] = lambda: subprocess.run(  # noqa: E731
        [sys.executable, "-c", "import own_link; own_link.main()"],
        env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    first = run()
    assert first.startswith("True")
    assert run() == first  # from the cache
