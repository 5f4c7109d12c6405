"""`refit` after each reward against a direct solve of all rewards."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import types

from glbandits.common.arrays import Floats
from glbandits.compilation.machine_code import compile_cached
from glbandits.compilation.numba_support import READ_MATRIX, READ_VECTOR
from glbandits.maths.fitting.likelihood import RIDGE_WITHOUT_MLE, fit, fit_or_diverge
from glbandits.maths.fitting.observation_history import empty_history, history, remember
from glbandits.maths.fitting.warm_fit import REFRESHES, RIDGE_USED, absorb, memory_size, refit
from glbandits.maths.links import LINKS, Link, LinkFunctions
from tests.maths.fitting.problems_without_an_estimate import without_an_estimate
from tests.maths.link_support import link_functions

Play = Callable[[Floats, Floats, float, Floats, Floats], None]


class Problem(NamedTuple):
    """Observations in their order."""

    X: Floats
    y: Floats
    ridge: float


class Run(NamedTuple):
    """The estimate after each observation."""

    thetas: Floats
    converged: Floats
    ridges: Floats
    refreshes: Floats


def player(link: Link) -> Play:
    """A function that learns rewards in order, and records each estimate."""
    mean, slope, antiderivative = link_functions(link)

    def play(X: Floats, y: Floats, ridge: float, thetas: Floats, notes: Floats) -> None:
        link_functions, dim = LinkFunctions(mean, slope, antiderivative), X.shape[1]
        offset = dim + memory_size(dim)
        state = np.zeros(offset + 2 + 16 * (dim + 2))
        state[offset + 1] = 16.0
        for t in range(X.shape[0]):
            state = remember(state, offset, X[t], y[t])
            theta, memory, rows = state[:dim], state[dim:offset], history(state, offset, dim)
            absorb(theta, memory, X[t], y[t], link_functions)
            converged = refit(
                rows.features, rows.rewards, rows.counts, ridge, np.zeros(dim), False, theta, memory, link_functions
            )
            for i in range(dim):
                thetas[t, i] = theta[i]
            notes[t, 0] = 1.0 if converged else 0.0
            notes[t, 1], notes[t, 2] = memory[RIDGE_USED], memory[REFRESHES]

    return play


@cache
def compiled_player(link_name: str) -> Play:
    matrix: Any = types.float64[:, ::1]
    signature = types.void(READ_MATRIX, READ_VECTOR, types.float64, matrix, matrix)
    return compile_cached(player(LINKS[link_name]), signature=signature, name=link_name)


def played(play: Play, problem: Problem) -> Run:
    T, dim = problem.X.shape
    thetas, notes = np.empty((T, dim)), np.empty((T, 3))
    play(problem.X, problem.y, problem.ridge, thetas, notes)
    return Run(thetas, notes[:, 0], notes[:, 1], notes[:, 2])


def draw_rewards(link: Link, scores: Floats, rng: np.random.Generator) -> Floats:
    means = np.array([link.mean(z) for z in scores])
    if link.name == "identity":
        return means + rng.normal(size=len(means))
    return rng.poisson(means).astype(float) if link.name == "log" else (rng.random(len(means)) < means).astype(float)


def random_problem(link: Link, seed: int, longest: int) -> Problem:
    """With or without a ridge, repeated rows, one-hot features, more features than rows, and large scores."""
    rng = np.random.default_rng([seed, 7])
    T, dim = int(rng.integers(1, longest + 1)), int(rng.integers(1, 6))
    X = rng.normal(size=(T, dim))
    kind = seed % 4
    if kind == 1:  # few distinct rows
        X = X[rng.integers(0, max(1, T // 3), T)]
    elif kind == 2:  # one-hot features, which are quasi-separable for long, and a number
        X = np.eye(dim)[rng.integers(0, dim, T)]
        X[:, 0] = rng.normal(size=T)
    scale = (0.5, 1.0, 2.0)[seed % 3]
    y = draw_rewards(link, scale * X @ rng.normal(size=dim), rng)
    return Problem(X, y, (0.0, 1.0, 0.0, 1e-2)[seed // 4 % 4])


def solved_directly(link: Link, X: Floats, y: Floats, ridge: float, start: Floats) -> Floats:
    """Newton's method with exact Hessians to 1e-12, from a close start."""
    theta = start.copy()
    for _ in range(30):
        z = X @ theta
        gradient = X.T @ (np.array([link.mean(score) for score in z]) - y) + ridge * theta
        hessian = (X.T * [link.slope(score) for score in z]) @ X + ridge * np.eye(len(theta))
        step = np.linalg.solve(hessian, gradient)
        theta = theta - step
        if np.abs(step).max() <= 1e-12 * (1.0 + np.abs(theta).max()):
            break
    return theta


def check(link: Link, play: Play, seed: int, longest: int) -> None:
    problem = random_problem(link, seed, longest)
    run = played(play, problem)
    T, dim = problem.X.shape
    for t in {0, T // 3, T // 2, T - 2, T - 1} - {-1}:
        X, y = problem.X[: t + 1], problem.y[: t + 1]
        plain = fit(X, y, np.ones(t + 1), problem.ridge, np.zeros(dim), link_functions(link))
        assert (run.converged[t], run.ridges[t]) == (plain.converged, plain.ridge)
        direct = solved_directly(link, X, y, plain.ridge, plain.theta)
        np.testing.assert_allclose(run.thetas[t], direct, rtol=1e-6, atol=1e-6, err_msg=f"seed {seed}, t {t}")


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_refit_agrees_with_a_direct_solve(link: Link) -> None:
    for seed in range(20):
        check(link, player(link), seed, longest=24)


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_refit_agrees_with_a_direct_solve_on_1000_problems(link: Link) -> None:
    for seed in range(1000):
        check(link, compiled_player(link.name), seed, longest=120)


@pytest.mark.safety
def test_compiled_refits_equal_uncompiled_ones() -> None:
    link = LINKS["logistic"]
    for seed in (3, 6, 8, 9):
        problem = random_problem(link, seed, longest=60)
        for plain, compiled in zip(
            played(player(link), problem), played(compiled_player("logistic"), problem), strict=True
        ):
            np.testing.assert_array_equal(plain, compiled)


@without_an_estimate
def test_without_an_estimate_refits_have_ridge_one(X: Floats, y: Floats, link: str) -> None:
    times = 6
    problem = Problem(np.tile(X, (times, 1)), np.tile(y, times), 0.0)
    run = played(player(LINKS[link]), problem)
    expected = fit(problem.X, problem.y, np.ones(len(problem.y)), 1.0, np.zeros(2), link_functions(LINKS[link])).theta
    assert (run.ridges == RIDGE_WITHOUT_MLE).all()
    assert run.converged.all()
    np.testing.assert_allclose(run.thetas[-1], expected, atol=1e-7)


def test_ridge_is_dropped_when_an_observation_makes_an_estimate_exist() -> None:
    link = LINKS["logistic"]
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 3))
    y = (X @ [1.0, -1.0, 0.5] > 0.0).astype(float)
    y[40] = 1.0 - y[40]
    run = played(player(link), Problem(X, y, 0.0))
    assert (run.ridges[:40] == RIDGE_WITHOUT_MLE).all()
    for t in range(40, 60):
        plain = fit(X[: t + 1], y[: t + 1], np.ones(t + 1), 0.0, np.zeros(3), link_functions(link))
        assert run.ridges[t] == plain.ridge
        np.testing.assert_allclose(run.thetas[t], plain.theta, atol=1e-6)
    assert run.ridges[-1] == 0.0


@pytest.mark.statistics
def test_collinear_features_need_few_hessians() -> None:
    rng = np.random.default_rng(4)
    X = np.hstack([np.eye(30)[rng.integers(0, 30, 600)], np.ones((600, 1)), rng.normal(size=(600, 1))])
    y = draw_rewards(LINKS["logistic"], X @ rng.normal(size=32), rng)
    run = played(compiled_player("logistic"), Problem(X, y, 0.0))
    assert (run.ridges == RIDGE_WITHOUT_MLE).all()
    assert run.refreshes[-1] - run.refreshes[200] <= 10


@pytest.mark.statistics
@pytest.mark.parametrize(("dim", "most"), [(3, 2000 / 5), (40, 3 * math.log2(2000) + 20)])
def test_number_of_hessians_grows_slowly(dim: int, most: float) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2000, dim)) / math.sqrt(dim)
    y = draw_rewards(LINKS["logistic"], 2.0 * X @ rng.normal(size=dim) / math.sqrt(dim), rng)
    run = played(compiled_player("logistic"), Problem(X, y, 1.0))
    assert run.refreshes[-1] <= most  # with few features a Hessian costs little more than a pass


def test_large_rewards_of_the_log_link_are_fitted() -> None:
    link = LINKS["log"]
    for reward in (1e3, 1e15, 1e40):
        run = played(player(link), Problem(np.ones((12, 1)), np.full(12, reward), 0.0))
        assert run.converged[-1]
        assert run.thetas[-1, 0] == pytest.approx(np.log(reward), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-4, 1e4])
@pytest.mark.parametrize("ridge", [1e-6, 1.0])
def test_ridge_is_kept_for_features_of_any_scale(scale: float, ridge: float) -> None:
    rng = np.random.default_rng(7)
    X, y = scale * rng.normal(size=(12, 20)), rng.integers(0, 2, 12).astype(float)
    run = played(player(LINKS["logistic"]), Problem(X, y, ridge))
    assert run.converged.all()
    assert (run.ridges == ridge).all()
    gradient = X.T @ (1 / (1 + np.exp(-X @ run.thetas[-1])) - y) + ridge * run.thetas[-1]
    np.testing.assert_allclose(gradient, 0.0, atol=1e-7 * max(scale, 1.0))


def test_user_link_is_fitted() -> None:
    cauchit = Link(
        name="cauchit",
        mean=lambda z: 0.5 + math.atan(z) / math.pi,
        slope=lambda z: 1 / (math.pi * (1 + z * z)),
        antiderivative=lambda z: z / 2 + (z * math.atan(z) - math.log(1 + z * z) / 2) / math.pi,
        inverse=lambda p: math.tan(math.pi * (p - 0.5)),
        lowest_reward=0.0,
        highest_reward=1.0,
        lipschitz=1 / math.pi,
    )
    for seed in range(16):
        check(cauchit, player(cauchit), seed, longest=30)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("samples", [3, 60])  # fewer than features, and more
def test_perturbed_refits_agree_with_plain_fits(link: Link, samples: int) -> None:
    rng = np.random.default_rng(11)
    X = rng.normal(size=(samples, 5))
    y, weights = draw_rewards(link, X @ np.linspace(-0.6, 0.8, 5), rng), rng.integers(1, 4, samples).astype(float)
    theta, memory = np.zeros(5), np.zeros(memory_size(5))
    assert refit(X, y, weights, 0.7, np.zeros(5), False, theta, memory, link_functions(link))
    for _ in range(5):
        centre, perturbed = rng.normal(size=5), y + 0.3 * rng.normal(size=samples)
        moved = theta.copy()
        assert refit(X, perturbed, weights, 0.7, centre, True, moved, memory.copy(), link_functions(link))
        expected = fit_or_diverge(X, perturbed, weights, 0.7, centre, theta, np.empty(5), link_functions(link)).theta
        np.testing.assert_allclose(moved, expected, atol=1e-6)


def test_changed_ridge_is_noticed() -> None:
    problem = random_problem(LINKS["logistic"], 8, longest=40)
    X, y, link = problem.X, problem.y, link_functions(LINKS["logistic"])
    theta, memory, weights = np.zeros(X.shape[1]), np.zeros(memory_size(X.shape[1])), np.ones(len(y))
    for ridge in (1.0, 0.5, 2.0):
        refit(X, y, weights, ridge, np.zeros(X.shape[1]), False, theta, memory, link)
        np.testing.assert_allclose(theta, fit(X, y, weights, ridge, 0 * theta, link).theta, atol=1e-7)


def test_player_starts_from_an_empty_history() -> None:
    np.testing.assert_array_equal(empty_history(3), [0.0, 16.0, *np.zeros(16 * 5)])
