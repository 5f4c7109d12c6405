import numpy as np
import pytest

from glbandits.maths.sketch import (
    Sketch,
    append_observation,
    as_sketch,
    compress,
    discount_curvature,
    eigenvectors,
    multiply_sketched,
    rebuild_covariance,
    score_lines_sketched,
    sketch_size,
)
from glbandits.records import Floats

N, RANK = 7, 3


def empty(prior: Floats) -> Sketch:
    sketch = as_sketch(np.zeros(sketch_size(RANK, N)), 0, RANK, N)
    sketch.variances[:] = 1.0 / prior
    return sketch


def observe(sketch: Sketch, prior: Floats, slope: float, x: Floats) -> None:
    v, direction = np.append(x, 1.0), np.empty(N)
    if sketch.used[0] == 2 * RANK:
        compress(sketch)
        rebuild_covariance(sketch, prior)
    multiply_sketched(sketch, v, direction)
    append_observation(sketch, slope, v, slope / (1.0 + slope * float(v @ direction)), direction)


def curvature(sketch: Sketch) -> Floats:
    B = sketch.B[: int(sketch.used[0])]
    S: Floats = B.T @ B + np.diag(sketch.rest)
    return S


def covariance(sketch: Sketch) -> Floats:
    F = sketch.F[: int(sketch.used[0])]
    P: Floats = np.diag(sketch.variances) - F.T @ F
    return P


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def test_sketch_is_exact_until_it_is_full(rng: np.random.Generator) -> None:
    prior = rng.uniform(0.5, 2.0, N)
    sketch, H = empty(prior), np.diag(prior)
    for _ in range(2 * RANK):
        x = rng.normal(size=N - 1)
        observe(sketch, prior, 0.2, x)
        H += 0.2 * np.outer(np.append(x, 1.0), np.append(x, 1.0))
    np.testing.assert_allclose(covariance(sketch), np.linalg.inv(H), rtol=1e-10, atol=1e-12)


def test_diagonal_and_strongest_direction_are_kept(rng: np.random.Generator) -> None:
    prior, along = np.ones(N), rng.normal(size=N - 1)
    sketch, S, strong = empty(prior), np.zeros((N, N)), np.append(along, 0.0)
    for _ in range(200):
        x = 3.0 * rng.normal() * along + 0.3 * rng.normal(size=N - 1)
        observe(sketch, prior, 0.2, x)
        S += 0.2 * np.outer(np.append(x, 1.0), np.append(x, 1.0))
    kept = curvature(sketch)
    np.testing.assert_allclose(np.diagonal(kept), np.diagonal(S), rtol=1e-10)
    assert strong @ kept @ strong == pytest.approx(strong @ S @ strong, rel=0.01)
    # The curvature and the covariance stay inverse to each other.
    np.testing.assert_allclose(covariance(sketch) @ (kept + np.diag(prior)), np.eye(N), atol=1e-9)


def test_score_lines_match_the_formula(rng: np.random.Generator) -> None:
    prior, theta = rng.uniform(0.5, 2.0, N), rng.normal(size=N)
    sketch, arms = empty(prior), rng.normal(size=(5, N - 1))
    for _ in range(9):
        observe(sketch, prior, 0.3, rng.normal(size=N - 1))
        levels, slopes = np.empty(5), np.empty(5)
        score_lines_sketched(arms, theta, sketch, 1.5, levels, slopes)
        v = np.hstack([arms, np.ones((5, 1))])
        np.testing.assert_allclose(levels, arms @ theta[:-1], rtol=1e-12)
        widths = np.sqrt(np.einsum("ai,ij,aj->a", v, covariance(sketch), v))
        np.testing.assert_allclose(slopes, 1.5 * widths, rtol=1e-9)


@pytest.mark.parametrize("rounds", [0, 20])
def test_replacing_the_prior_keeps_the_observations(rng: np.random.Generator, rounds: int) -> None:
    prior, new, fade = rng.uniform(0.5, 2.0, N), rng.uniform(0.5, 2.0, N), 0.7
    sketch, theta = empty(prior), rng.normal(size=N)
    for _ in range(rounds):
        observe(sketch, prior, 0.3, rng.normal(size=N - 1))
    S = curvature(sketch)
    right_side = discount_curvature(sketch, theta, prior, fade)
    np.testing.assert_allclose(right_side, fade * (S + np.diag(prior)) @ theta, rtol=1e-10)
    rebuild_covariance(sketch, new)
    multiply_sketched(sketch, right_side, theta)
    H = np.diag(new) + fade * S
    np.testing.assert_allclose(covariance(sketch) @ H, np.eye(N), atol=1e-10)
    np.testing.assert_allclose(H @ theta, right_side, atol=1e-10)


def test_eigenvectors_diagonalise_the_matrix(rng: np.random.Generator) -> None:
    A = rng.normal(size=(8, 8))
    A = A @ A.T
    diagonal = A.copy()
    V = eigenvectors(diagonal)
    np.testing.assert_allclose(V.T @ V, np.eye(8), atol=1e-12)
    np.testing.assert_allclose(V.T @ A @ V, diagonal, atol=1e-10)
    np.testing.assert_allclose(np.sort(np.diagonal(diagonal)), np.linalg.eigvalsh(A), rtol=1e-10)
    assert (eigenvectors(np.zeros((3, 3))) == np.eye(3)).all()
