import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numba import types

from glbandits.common.arrays import Floats, Generator
from glbandits.compilation.machine_code import compile_cached
from glbandits.compilation.numba_support import GENERATOR, VECTOR
from glbandits.maths.philox import generator
from glbandits.maths.posteriors.polya_gamma import polya_gamma, polya_gamma_mean, polya_gamma_variance


def fill(n: int, c: float, rng: Generator, out: Floats) -> None:
    for i in range(out.shape[0]):
        out[i] = polya_gamma(n, c, rng)


@cache
def compiled_fill() -> Callable[..., None]:
    return compile_cached(fill, signature=types.void(types.int64, types.float64, GENERATOR, VECTOR), name="test")


@pytest.mark.statistics
@pytest.mark.parametrize("c", [0.0, 0.7, 1.6, 4.0, 30.0, 500.0])
@pytest.mark.parametrize("n", [1, 4, 300])
def test_draws_have_mean_variance_and_laplace_transform(n: int, c: float) -> None:
    draws, size = np.empty(40_000), 40_000
    compiled_fill()(n, c, generator(3), draws)
    mean, variance = n * polya_gamma_mean(c), n * polya_gamma_variance(c)
    # Five standard errors each, 54 in all: a correct program fails once in 30,000 sets of seeds. The variance of a
    # sample variance is (kurtosis - 1)/size of its square; PG(1, c) has kurtosis below 10.
    assert abs(draws.mean() - mean) < 5 * math.sqrt(variance / size)
    assert abs(draws.var() / variance - 1) < 5 * math.sqrt(9 / size)
    # E exp(-s omega) = (cosh(c/2) / cosh(sqrt(c^2/4 + s/2)))^n, here at the s that makes s omega about 1
    s = 1 / mean
    transform = math.exp(n * (log_cosh(c / 2) - log_cosh(math.sqrt(c * c / 4 + s / 2))))
    values = np.exp(-s * draws)
    # The normal limit used for n = 300 has no third moment: off by its skewness / 6 of the cubed spread, below 1e-4.
    assert abs(values.mean() - transform) < 5 * values.std() / math.sqrt(size) + (1e-4 if n == 300 else 0)


def log_cosh(x: float) -> float:
    return abs(x) + math.log1p(math.exp(-2 * abs(x))) - math.log(2)


def test_moments_are_continuous_where_their_formula_changes() -> None:
    for edge, moment in ((1e-3, polya_gamma_mean), (0.05, polya_gamma_variance)):
        assert moment(edge * (1 - 1e-6)) == pytest.approx(moment(edge * (1 + 1e-6)), rel=1e-6)


def test_draw_for_large_c_is_the_mean() -> None:
    rng = generator(1)
    assert polya_gamma(1, -3e4, rng) == pytest.approx(1 / 6e4)
    assert polya_gamma(1, 1e40, rng) > 0
    assert all(polya_gamma(2, 9e3, rng) > 0 for _ in range(20))
