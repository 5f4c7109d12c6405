"""`refit` after each reward against a direct solve of all rewards."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import types

from glbandits.compiled import READ_MATRIX, READ_VECTOR, compile_cached
from glbandits.maths.history import first_history, history, remember
from glbandits.maths.likelihood import RIDGE_WITHOUT_MLE, fit, fit_towards
from glbandits.maths.links import LINKS, Link, LinkFunctions
from glbandits.maths.warm_fit import REFRESHES, RIDGE_USED, absorb, memory_size, refit
from glbandits.records import Floats

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


def functions(link: Link) -> LinkFunctions:
    return LinkFunctions(link.mean, link.slope, link.antiderivative)


def player(link: Link) -> Play:
    """A loop that learns rewards one after the other, and writes down each estimate."""
    mean, slope, antiderivative = functions(link)

    def play(X: Floats, y: Floats, ridge: float, thetas: Floats, notes: Floats) -> None:
        link_functions, dim = LinkFunctions(mean, slope, antiderivative), X.shape[1]
        place = dim + memory_size(dim)
        state = np.zeros(place + 2 + 16 * (dim + 2))
        state[place + 1] = 16.0
        for t in range(X.shape[0]):
            state = remember(state, place, X[t], y[t])
            theta, memory, rows = state[:dim], state[dim:place], history(state, place, dim)
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
    return compile_cached(player(LINKS[link_name]), signature=signature, name=link_name, cached=False)


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
    """Newton with fresh Hessians to 1e-12, from a start near by."""
    theta = start.copy()
    for _ in range(30):
        z = X @ theta
        gradient = X.T @ (np.array([link.mean(one) for one in z]) - y) + ridge * theta
        hessian = (X.T * [link.slope(one) for one in z]) @ X + ridge * np.eye(len(theta))
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
        plain = fit(X, y, np.ones(t + 1), problem.ridge, np.zeros(dim), functions(link))
        assert (run.converged[t], run.ridges[t]) == (plain.converged, plain.ridge)
        direct = solved_directly(link, X, y, plain.ridge, plain.theta)
        np.testing.assert_allclose(run.thetas[t], direct, rtol=1e-6, atol=1e-6, err_msg=f"seed {seed}, t {t}")


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_refit_agrees_with_a_direct_solve(link: Link) -> None:
    for seed in range(60):
        check(link, player(link), seed, longest=24)


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_refit_agrees_with_a_direct_solve_on_1000_problems(link: Link) -> None:
    for seed in range(1000):
        check(link, compiled_player(link.name), seed, longest=120)
