"""Audits of simulated routers find the true quality and cost of other ways to route."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from glbandits.common.errors import InvalidInput, UnknownName
from glbandits.routing import PromptRouter
from glbandits.routing.audit import ROUTER, TAIL, RouterAudit, audit
from glbandits.routing.audit_log import read_routes
from tests.routing.simulated_log import COSTS, expected_quality, simulated_routes, written


@pytest.fixture(autouse=True)
def _plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")


def holds(found: RouterAudit, name: str, measure: str, truth: float) -> bool:
    interval = found[name].values[measure].fixed_n
    return interval is not None and interval.low <= truth <= interval.high


@pytest.mark.statistics
def test_intervals_of_95_percent_hold_in_most_logs(tmp_path: Path) -> None:
    # With a coverage of 90 % or more, fewer than 38 of 50 has a probability of 0.001 for one of the eight.
    held: dict[tuple[str, str], int] = {}
    quality = np.array([0.55, 0.75, 0.85])
    shares = {
        "arm:small": [1, 0, 0],
        "arm:large": [0, 0, 1],
        "uniform": [1 / 3] * 3,
        "mix:small,medium,0.3": [0.7, 0.3, 0],
    }
    for seed in range(50):
        log = read_routes(written(simulated_routes(300, seed), tmp_path))
        found = audit(log, policies=["mix:small,medium,0.3"])
        for name, share in shares.items():
            for measure, truth in (("quality", quality @ share), ("cost", COSTS @ share)):
                held[name, measure] = held.get((name, measure), 0) + holds(found, name, measure, float(truth))
    assert min(held.values()) >= 38, held


def test_router_with_another_budget_has_its_true_quality_and_cost(tmp_path: Path) -> None:
    found = audit(read_routes(written(simulated_routes(2000, 1), tmp_path)), [0.2, 1.0])
    x = np.linspace(-1.0, 1.0, 1001)
    for budget in (0.2, 1.0):
        # the best rule with this mean cost
        price = min(
            p
            for p in np.linspace(0, 3, 3001)
            if COSTS[(expected_quality(x) - p * COSTS).argmax(axis=1)].mean() <= budget
        )
        best = (expected_quality(x) - price * COSTS).argmax(axis=1)
        each = found[f"budget:{budget:g}"]
        assert each.rows == 1000
        assert each.values["cost"].value == pytest.approx(budget, rel=0.3)
        assert each.values["quality"].value == pytest.approx(
            expected_quality(x)[np.arange(1001), best].mean(), abs=0.03
        )
        mixed = found[found.budgets[budget]]
        assert mixed.values["cost"].value == pytest.approx(budget, rel=0.02)
    assert found[found.budgets[0.2]].values["quality"].value < found["budget:0.2"].values["quality"].value
    assert found.hull == ("arm:small", "arm:medium", "arm:large")


def test_router_itself_has_the_logged_means_and_its_cost_is_a_budget(tmp_path: Path) -> None:
    frame = simulated_routes(500, 2)
    found = audit(read_routes(written(frame, tmp_path)))
    assert found[ROUTER].point == pytest.approx((frame["cost"].mean(), frame["quality"].mean()))
    assert [*found.budgets] == [float(f"{frame['cost'].to_numpy().mean():.3g}")]


def test_order_of_files_does_not_matter(tmp_path: Path) -> None:
    frame = simulated_routes(200, 3)
    frame.write_parquet(tmp_path / "all.parquet")
    both = [read_routes(tmp_path / "all.parquet"), read_routes(written(frame, tmp_path / "parts"))]
    assert both[0].cost.rewards.tolist() == both[1].cost.rewards.tolist() == frame["cost"].to_list()


def test_kept_sessions_and_missing_feedback_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = np.arange(300)
    frame = simulated_routes(300, 4).with_columns(
        drawn=pl.Series(rows % 3 != 0),
        quality=pl.when(pl.Series(rows % 10 == 1)).then(None).otherwise("quality"),
        cost=pl.when(pl.Series(rows % 10 == 2)).then(float("nan")).otherwise("cost"),
    )
    log = read_routes(written(frame, tmp_path))
    assert len(log.cost) == 160
    assert "100 decisions are left out because a session kept its model" in log.notes[0]
    assert "40 decisions are left out because feedback is missing" in log.notes[1]


def test_added_model_is_evaluated_on_the_rows_that_offered_it(tmp_path: Path) -> None:
    old, new = simulated_routes(400, 5), simulated_routes(600, 6)
    old = old.filter(pl.col("model") != "large")
    old = old.with_columns(
        models=pl.Series([["small", "medium"]] * len(old)),
        probabilities=pl.col("probabilities").list.head(2).list.eval(pl.element() / pl.element().sum()),
    )
    found = audit(read_routes(written(pl.concat([old, new.with_columns(pl.col("timestamp") + 400)]), tmp_path)))
    assert (found["arm:large"].rows, found["arm:small"].rows) == (600, 600 + len(old))
    assert holds(found, "arm:large", "quality", 0.85)


def test_models_that_were_never_offered_are_named(tmp_path: Path) -> None:
    frame = simulated_routes(200, 7).with_columns(
        models=pl.Series([["small", "medium", "large", "huge"]] * 200),
        probabilities=pl.col("probabilities").list.concat(pl.Series([[0.0]] * 200)),
    )
    log = read_routes(written(frame, tmp_path))
    assert log.cost.arm_names == ("small", "medium", "large")
    assert log.notes == ("the log never offered huge, so it has no evidence on that",)


def test_rare_dear_answer_makes_the_interval_of_the_cost_doubtful(tmp_path: Path) -> None:
    frame = simulated_routes(500, 8)
    rows = np.arange(500) == frame["model"].to_list().index("medium")
    frame = frame.with_columns(cost=pl.when(pl.Series(rows)).then(80.0).otherwise("cost"))
    found = audit(read_routes(written(frame, tmp_path)))
    assert TAIL in found["arm:medium"].doubts
    assert TAIL not in found["arm:small"].doubts


def test_log_without_quality_is_audited_for_its_costs(tmp_path: Path) -> None:
    frame = simulated_routes(500, 9).with_columns(quality=pl.lit(None, dtype=pl.Float64))
    found = audit(read_routes(written(frame, tmp_path)), [0.2])
    assert holds(found, "arm:large", "cost", 2.0)
    assert [*found["uniform"].values] == ["cost"]
    assert "the log has no quality" in found.notes[-1]


def test_log_with_one_model_has_nothing_to_compare(tmp_path: Path) -> None:
    rows = simulated_routes(50, 10)
    frame = rows.with_columns(model=pl.lit("a"), models=pl.Series([["a"]] * 50), probabilities=pl.Series([[1.0]] * 50))
    found = audit(read_routes(written(frame, tmp_path)), [0.2])
    assert "only one model, a" in found.notes[-1]


def test_names_of_models_may_have_commas(tmp_path: Path) -> None:
    names = {"small": "s,1", "medium": "m,2,x", "large": "l"}
    frame = simulated_routes(400, 1).with_columns(
        pl.col("model").replace(names), pl.col("models").list.eval(pl.element().replace(names))
    )
    found = audit(read_routes(written(frame, tmp_path)), [0.2], ["mix:m,2,x,l,0.3"])
    assert found.budgets[0.2].startswith("mix:s,1,m,2,x,0.")
    assert found["mix:m,2,x,l,0.3"].values["cost"].value == pytest.approx(0.7 * 0.5 + 0.3 * 2.0, rel=0.2)


def test_one_decision_has_no_interval(tmp_path: Path) -> None:
    assert audit(read_routes(written(simulated_routes(1, 1), tmp_path)))[ROUTER].values["quality"].fixed_n is None


def test_short_logs_and_alternating_models_have_no_numbers(tmp_path: Path) -> None:
    found = audit(read_routes(written(simulated_routes(5, 10), tmp_path)), [0.2])
    assert np.isnan(found["arm:medium"].point).all()
    turns = pl.Series([["small"], ["medium"], ["large"]] * 40)
    frame = simulated_routes(120, 10).with_columns(
        models=turns, model=turns.list.first(), probabilities=pl.Series([[1.0]] * 120)
    )
    found = audit(read_routes(written(frame, tmp_path)), policies=["mix:small,large,0.5"])
    assert found["mix:small,large,0.5"].doubts == (
        "not enough evidence: the log never offered these models for the same decision",
    )
    assert "too few rows with the same models" in found.notes[-1]


def test_log_of_a_router_can_be_audited(tmp_path: Path) -> None:
    router = PromptRouter({"a": 0.1, "b": 1.0}, budget=0.5, floor=0.2, features=2, log=tmp_path, seed=0)
    rng = np.random.default_rng(0)
    for number in range(150):
        route = router.route(rng.normal(size=2), session=f"s{number % 120}")
        good = route.model == "b"
        router.feedback(route.event_id, quality=0.5 + 0.3 * good, cost=0.1 + 0.9 * good)
    router.write_log()
    log = read_routes(tmp_path)
    assert len(log.cost) == 120
    found = audit(log, [0.3])
    assert found["arm:b"].point == pytest.approx((1.0, 0.8), abs=1e-3)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (pl.col("quality") + 1.0, "quality must be between 0 and 1 in all rows"),
        (-pl.col("cost"), "cost must be at least 0 in all rows"),
        (pl.lit(None, dtype=pl.Float64).alias("cost"), "no decision with complete feedback"),
        (pl.lit("x").alias("model"), "model must be one that was offered in some row; got 'x'"),
        (pl.Series("features", [[1.0]] * 49 + [[1.0, 2.0]]), "features must be as many in all rows; got 1 and 2"),
        (pl.Series("features", [[1.0, np.nan]] * 50), "contexts must be finite numbers; got nan"),
        (pl.lit(False).alias("drawn"), "50 decisions are left out because a session kept its model"),
    ],
)
def test_log_with_wrong_values_is_refused(change: pl.Expr | pl.Series, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=reason):
        read_routes(written(simulated_routes(50, 11).with_columns(change), tmp_path))


def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"must be a folder|none of them"):
        read_routes(tmp_path)
    simulated_routes(5, 12).drop("probabilities").write_parquet(tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match=r"a\.parquet must be a file that PromptRouter.*no column probabilities"):
        read_routes(tmp_path)
    (tmp_path / "a.parquet").write_text("no parquet")
    with pytest.raises(InvalidInput, match="could not be read"):
        read_routes(tmp_path)


@pytest.mark.parametrize("text", ["medium", "mix:small,medium", "mix:small,medium,1.5", "mix:small,medium,x"])
def test_unknown_policy_is_refused(text: str, tmp_path: Path) -> None:
    log = read_routes(written(simulated_routes(50, 13), tmp_path))
    with pytest.raises(InvalidInput, match="a policy is uniform, arm:small"):
        audit(log, policies=[text])


def test_unknown_model_and_negative_budget_are_refused(tmp_path: Path) -> None:
    log = read_routes(written(simulated_routes(50, 14), tmp_path))
    with pytest.raises(UnknownName, match="unknown model 'smal'; did you mean 'small'"):
        audit(log, policies=["mix:smal,medium,0.5"])
    with pytest.raises(InvalidInput, match="budget must be a finite number above 0"):
        audit(log, [-1.0])


def test_router_imports_neither_evaluation_nor_polars() -> None:
    code = "import sys, glbandits.routing; print({'polars', 'altair', 'glbandits.evaluation'} & {*sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
