from typing import Any

import numpy as np
import pytest

from glbandits.bandit.entry_points import bound_scores_recipe, scan_panels_recipe
from glbandits.common.arrays import Floats
from glbandits.compilation.entry_point import compile_now
from glbandits.maths.arm_panels import WIDTH, bound_scores, largest_error, pack_columns, pack_panels, scan_panels

ARMS = 2 * WIDTH


def scanned(
    rows: Floats, columns: Floats, before: Floats, growth: float, scan: Any = scan_panels
) -> tuple[Floats, Floats]:
    """Levels and variances after a scan, with a remainder of 0."""
    levels, variances = np.empty(len(rows)), before.copy()
    norms = np.sqrt(1.0 + (rows**2).sum(axis=1))
    error = largest_error(rows.shape[1])
    scan(pack_panels(rows), norms, *pack_columns(columns), error, growth, 0.0, levels, variances)
    return levels, variances


@pytest.mark.parametrize("dim", [1, 4, 7])
def test_scan_bounds_exact_products(dim: int) -> None:
    rng = np.random.default_rng(dim)
    rows, columns = rng.normal(size=(ARMS, dim)), rng.normal(size=(4, dim + 1)) * 10.0 ** rng.integers(-20, 20, (4, 1))
    columns[2, :dim] = 0.0
    exact = np.column_stack([rows, np.ones(ARMS)]) @ columns.T
    total = (exact[:, 1:] ** 2).sum(axis=1)
    norms = np.sqrt(1.0 + (rows**2).sum(axis=1))
    levels, computed = scanned(rows, columns, np.zeros(ARMS), growth=0.0)
    assert (np.abs(levels - exact[:, 0]) <= largest_error(dim) * norms * np.linalg.norm(columns[0])).all()
    assert (computed >= total).all()
    np.testing.assert_allclose(computed, total, atol=1e-4 * total.max())
    _, updated = scanned(rows, columns, 3.0 * total, growth=2.0)
    assert (updated >= 5.0 * total).all()
    np.testing.assert_allclose(updated, 5.0 * total, atol=1e-4 * total.max())


def test_compiled_scan_gives_the_same_bits() -> None:
    rng = np.random.default_rng(1)
    rows, columns, before = rng.normal(size=(ARMS, 5)), rng.normal(size=(3, 6)), rng.random(ARMS)
    compiled = scanned(rows, columns, before, 1.5, compile_now(scan_panels_recipe()))
    np.testing.assert_array_equal(compiled, scanned(rows, columns, before, 1.5))


def test_scores_at_both_ends_of_the_bonus() -> None:
    rng = np.random.default_rng(2)
    levels, variances, norms = rng.normal(size=ARMS), rng.random(ARMS), 1.0 + rng.random(ARMS)
    numbers = (0.1, 0.2, 0.3, 0.4, 0.6, 1.1)
    for function in (bound_scores, compile_now(bound_scores_recipe())):
        at_low, at_high = np.empty(ARMS), np.empty(ARMS)
        function(levels, variances, norms, *numbers, at_low, at_high)
        v = variances + 0.2 * norms**2
        bonus = np.sqrt(v * (0.3 + 0.4 * v))
        np.testing.assert_allclose(at_low, levels + 0.1 * norms + 0.6 * bonus, rtol=1e-14)
        np.testing.assert_allclose(at_high, levels + 0.1 * norms + 1.1 * bonus, rtol=1e-14)
