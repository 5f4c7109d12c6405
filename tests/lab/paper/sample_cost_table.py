"""A cost table for tests: exact powers of the size, nothing measured."""

from glbandits.lab.paper.cost import DIMENSIONS, HORIZONS, Axis, CostCurve, CostPoint, CostTable


def power_curve(policy: str, axis: Axis, sizes: tuple[int, ...], exponent: float, unit: float = 1e-6) -> CostCurve:
    """A curve whose cost is a power of the size, after a constant overhead in the lower half."""
    middle = sizes[len(sizes) // 2]
    points = (CostPoint(size, unit * max(size, middle) ** exponent, 8 * max(size, middle)) for size in sizes)
    return CostCurve(policy, axis, tuple(points))


TABLE = CostTable(
    curves=(
        power_curve("sgd-ts", "T", HORIZONS, 1.0),
        power_curve("ucb-glm", "T", HORIZONS[:5], 1.9),
        power_curve("glm-tsl", "T", HORIZONS[:5], 1.9),
        power_curve("optimist", "T", HORIZONS, 1.0, 1e-6),
        power_curve("sgd-ts", "d", DIMENSIONS, 1.0),
        power_curve("ucb-glm", "d", DIMENSIONS[:7], 2.0),
        power_curve("glm-tsl", "d", DIMENSIONS[:6], 2.5),
        power_curve("optimist", "d", DIMENSIONS, 1.0, 3e-6),
    ),
    horizons=HORIZONS,
    dimensions=DIMENSIONS,
    budget_seconds=16.0,
    quick=False,
)
