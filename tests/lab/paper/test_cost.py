import msgspec
import pytest

from glbandits import InvalidInput
from glbandits.lab.paper import cost
from glbandits.lab.paper.cost import (
    CostCurve,
    CostPoint,
    CostTable,
    measure_cost,
    policy_for,
    predicted_seconds,
)
from glbandits.maths.links import PACKED
from tests.lab.paper.sample_cost_table import TABLE, power_curve


def test_exponents_are_fitted_to_the_upper_half_of_the_sizes() -> None:
    curve = power_curve("sgd-ts", "T", (10, 20, 40, 80, 160, 320), 1.5)
    assert [point.size for point in curve.fitted] == [80, 160, 320]
    assert curve.time_slope == pytest.approx(1.5)
    assert curve.memory_slope == pytest.approx(1.0)
    assert len(CostCurve("sgd-ts", "T", curve.points[:3]).fitted) == 3
    assert len(CostCurve("sgd-ts", "T", curve.points[:2]).fitted) == 2


def test_prediction_extrapolates_the_last_two_points() -> None:
    points = [CostPoint(10, 5.0, 8), CostPoint(100, 1.0, 8), CostPoint(300, 9.0, 8)]
    assert predicted_seconds(points, 900) == pytest.approx(81.0)
    assert predicted_seconds(points[:1], 900) == 0.0


def test_blocks_and_warm_ups_are_short_in_runs_against_d() -> None:
    for name in ("sgd-ts", "ucb-glm", "glm-tsl"):
        policy = policy_for(name, "d", 100_000)
        assert policy.name == name
        assert policy.packed_settings(1000)[PACKED:].max() == 20.0
    assert policy_for("sgd-ts", "T", 10**7) != policy_for("sgd-ts", "T", 10**3)


def test_curve_ends_where_the_budget_is_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "POLICY_NAMES", ("sgd-ts", "ucb-glm"))
    monkeypatch.setattr(cost, "QUICK_HORIZONS", (64, 128, 256, 512))
    monkeypatch.setattr(cost, "QUICK_DIMENSIONS", (3, 6, 12))
    monkeypatch.setattr(cost, "QUICK_BUDGET", 0.0)
    calls: list[tuple[float, float]] = []
    table = measure_cost(quick=True, progress=lambda _, done, total: calls.append((done, total)))
    assert [(curve.policy, curve.axis, len(curve.points)) for curve in table.curves] == [
        ("sgd-ts", "T", 2),
        ("ucb-glm", "T", 2),
        ("sgd-ts", "d", 2),
        ("ucb-glm", "d", 2),
    ]
    assert all(table.ended_early(curve) for curve in table.curves)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1] == (14.0, 14.0)


@pytest.mark.statistics
@pytest.mark.usefixtures("plain_python")
def test_memory_grows_with_t_only_with_a_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "POLICY_NAMES", ("sgd-ts", "ucb-glm"))
    monkeypatch.setattr(cost, "QUICK_HORIZONS", (128, 256, 512))
    monkeypatch.setattr(cost, "QUICK_DIMENSIONS", (3, 6))
    monkeypatch.setattr(cost, "QUICK_BUDGET", 60.0)
    table = measure_cost(quick=True)
    assert not table.ended_early(table.curve("ucb-glm", "T"))
    assert table.curve("sgd-ts", "T").memory_slope == pytest.approx(0.0, abs=1e-9)
    assert table.curve("ucb-glm", "T").memory_slope == pytest.approx(1.0, abs=0.1)
    assert all(point.seconds > 0.0 for curve in table.curves for point in curve.points)
    with pytest.raises(InvalidInput, match="The cost of 'optimist' against 'T'"):
        table.curve("optimist", "T")


def test_cost_table_round_trips_through_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(TABLE), type=CostTable) == TABLE
