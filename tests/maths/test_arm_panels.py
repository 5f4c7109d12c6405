import numpy as np
import pytest

from glbandits.bandit.entries import bound_scores_recipe, scan_panels_recipe
from glbandits.compilation import compile_now
from glbandits.maths.arm_panels import WIDTH, bound_scores, largest_error, pack_columns, pack_panels, scan_panels
from glbandits.records import Floats

ARMS = 2 * WIDTH


def scanned(rows: Floats, columns: Floats, error: float, scan: object = scan_panels) -> tuple[Floats, Floats]:
    products, squares = np.empty(len(rows)), np.empty(len(rows))
    norms = np.sqrt(1.0 + (rows**2).sum(axis=1))
    scan(pack_panels(rows), norms, *pack_columns(columns), error, products, squares)  # type: ignore[operator]
    return products, squares


@pytest.mark.parametrize("dim", [1, 4, 7])
def test_scan_bounds_exact_products(dim: int) -> None:
    rng = np.random.default_rng(dim)
    rows, columns = rng.normal(size=(ARMS, dim)), rng.normal(size=(4, dim + 1)) * 10.0 ** rng.integers(-20, 20, (4, 1))
    columns[2, :dim] = 0.0
    exact = np.column_stack([rows, np.ones(ARMS)]) @ columns.T
    norms = np.sqrt(1.0 + (rows**2).sum(axis=1))
    error = largest_error(dim)
    products, upper = scanned(rows, columns, error)
    assert (np.abs(products - exact[:, 0]) <= error * norms * np.linalg.norm(columns[0])).all()
    _, lower = scanned(rows, columns, -error)
    total = (exact[:, 1:] ** 2).sum(axis=1)
    assert (lower <= total).all()
    assert (total <= upper).all()
    np.testing.assert_allclose(upper, total, atol=1e-4 * total.max())


def test_compiled_scan_gives_the_same_bits() -> None:
    rng = np.random.default_rng(1)
    rows, columns = rng.normal(size=(ARMS, 5)), rng.normal(size=(3, 6))
    compiled = scanned(rows, columns, 1e-6, compile_now(scan_panels_recipe()))
    np.testing.assert_array_equal(compiled, scanned(rows, columns, 1e-6))


def test_scores_at_both_ends_of_the_bonus() -> None:
    rng = np.random.default_rng(2)
    levels, variances, norms = rng.normal(size=ARMS), rng.random(ARMS), 1.0 + rng.random(ARMS)
    numbers = (0.1, 0.2, 0.3, 0.4, 0.6, 1.1)
    for function in (bound_scores, compile_now(bound_scores_recipe())):
        lowest, highest = np.empty(ARMS), np.empty(ARMS)
        function(levels, variances, norms, *numbers, lowest, highest)
        v = variances + 0.2 * norms**2
        bonus = np.sqrt(v * (0.3 + 0.4 * v))
        np.testing.assert_allclose(lowest, levels + 0.1 * norms + 0.6 * bonus, rtol=1e-14)
        np.testing.assert_allclose(highest, levels + 0.1 * norms + 1.1 * bonus, rtol=1e-14)
