"""Options of a log, and errors that name them."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, read_csv
from glbandits.features import FeatureMap, Hashing
from glbandits.service.export.log_source import open_log_or_store
from tests.cli.in_process import glb

TABLE = {"arm": ["a", "b"], "reward": [0, 1], "propensity": [0.5, 1.5], "near_a": [1, 2]}
ARMS = ("--arm-table", "arms.csv")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns(reward="click"), "no column 'click'"),
        (Columns(), "got 1.5. Divide percentages by 100"),
        (Columns(per_arm=("near_{arm}",)), "no column 'near_b'"),
    ],
)
def test_columns_that_do_not_fit_are_an_error(tmp_path: Path, columns: Columns, message: str) -> None:
    pl.DataFrame(TABLE).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(InvalidInput, match=message):
        list(open_log_or_store(str(tmp_path / "log.parquet"), columns).blocks())


def test_options_that_a_format_does_not_have_are_refused(tmp_path: Path) -> None:
    table, dsjson = tmp_path / "log.csv", tmp_path / "log.dsjson"
    table.write_text("arm,reward,propensity\na,0,0.5\nb,1,0.5\n")
    dsjson.write_text('{"c": {"_multi": [{"x": 1}]}, "a": [1], "p": [1.0], "_label_cost": 0}\n')
    (export := tmp_path / "export").mkdir()
    pl.DataFrame({"actions": [["a"]]}).write_parquet(export / "1.parquet")
    (export / "manifest.json").write_text(
        '{"loop": "default", "rows": 1, "left_out": 0, "last_number": 1,'
        ' "files": [{"name": "1.parquet", "rows": 1, "sha256": ""}]}'
    )
    (open_bandit := tmp_path / "open_bandit").mkdir()
    (open_bandit / "item_context.csv").write_text("")
    store, context = tmp_path / "events.sqlite", Columns(context=("age",))
    cases: list[tuple[Path, Any, str]] = [
        (table, {"hashing": Hashing(8)}, "hashing"),
        (dsjson, {"missing": "error"}, "missing"),
        (export, {"missing": "error"}, "missing"),
        (export, {"columns": context}, "Columns.context"),
        (export, {"hashing": Hashing(8)}, "hashing"),
        (open_bandit, {"sparse": True}, "sparse"),
        (store, {"crosses": ()}, "crosses"),
        (store, {"columns": context}, "Columns.context"),
        (store, {"columns": Columns(propensity="p")}, "Columns.propensity"),
    ]
    for address, settings, name in cases:
        with pytest.raises(InvalidInput, match=f"{name} does not apply to") as caught:
            open_log_or_store(str(address), **{"columns": Columns()} | settings)
        assert caught.value.field == name


def test_separator_of_each_file_is_inferred(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("arm\treward\tpropensity\na\t0\t0.5\nb\t1\t0.5\n")
    (tmp_path / "arms.csv").write_text("name;price\na;1\nb;2\n")
    log = open_log_or_store(str(tmp_path / "log.csv"), Columns(), arm_table=tmp_path / "arms.csv")
    assert (log.dim, len(log)) == (1, 2)


def test_decimal_commas_of_an_arm_table_equal_those_of_read_csv(tmp_path: Path) -> None:
    log, arms = tmp_path / "log.csv", tmp_path / "arms.csv"
    log.write_text("arm;reward;propensity\na;0;0.5\nb;1;0.5\n")
    arms.write_text("name;price\na;1.234\nb;2.500\n")
    settings: Any = {"arm_table": arms, "kinds": {"price": "decimal_comma"}}
    for opened in (open_log_or_store(str(log), Columns(), **settings), read_csv(log, Columns(), **settings)):
        assert isinstance(opened.feature_map, FeatureMap)
        assert getattr(opened.feature_map.kinds["price"], "mean", None) == (1234 + 2500) / 2


@pytest.mark.parametrize(
    ("options", "arms", "message", "option"),
    [
        (
            ("--reward", "click"),
            None,
            "no column 'click'",
            "--arm, --reward, --propensity COLUMN, --context",
        ),
        (("--context", "near_{arm}"), None, "needs a column for every arm", "--context"),
        (ARMS, "name\na\na\n", "column 'name', row 0: the value must name each arm of arm_table once", "--arm-table"),
        (ARMS, "", "arms.csv could not be read", "--arm-table"),
        (("--jobs", "0"), None, "jobs must be a number of parallel workers", "--jobs N"),
    ],
)
def test_error_of_a_command_names_the_option(
    tmp_path: Path, options: tuple[str, ...], arms: str | None, message: str, option: str
) -> None:
    columns = {"price": ["1.5", "2.5"], "age": [1.0, None]}
    pl.DataFrame(TABLE | columns).write_parquet(tmp_path / "log.parquet")
    if arms is not None:
        (tmp_path / "arms.csv").write_text(arms)
    run = glb("evaluate", "log.parquet", *options, folder=tmp_path)
    assert run.returncode == 2
    assert message in run.stderr
    assert run.stderr.endswith(f"\nOption: {option}\n")


def test_setting_of_a_policy_is_no_option(tmp_path: Path) -> None:
    run = glb("simulate", "--policy", "sgd-ts:horizon=-1", folder=tmp_path)
    assert run.stderr.startswith("glb: horizon must be")
    assert "Option" not in run.stderr
