"""Errors about a log name parameters in Python, and options on the command line."""

from pathlib import Path

import polars as pl
import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, open_log, read_csv
from glbandits.features import FeatureMap, Hashing
from glbandits.service.export.log_source import open_log_or_store
from tests.cli.in_process import glb

TABLE = {"arm": ["a", "b"], "reward": [0, 1], "propensity": [0.5, 1.5], "near_a": [1, 2]}
ARMS = ("--arm-table", "arms.csv")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            Columns(reward="click"),
            "Name the columns with Columns.arm=....*, Columns.reward=....* and Columns.propensity",
        ),
        (Columns(), "got 1.5. Divide percentages by 100. If the propensities .* Columns.propensity=None."),
        (Columns(per_arm=("near_{arm}",)), "no column 'near_b'.* Columns.per_arm=....* needs a column for every arm"),
    ],
)
def test_errors_of_a_log_name_parameters_of_python(tmp_path: Path, columns: Columns, message: str) -> None:
    pl.DataFrame(TABLE).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(InvalidInput, match=message):
        list(open_log(tmp_path / "log.parquet", columns).blocks())


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
    for address, columns, settings, name in (
        (table, Columns(), {"hashing": Hashing(8)}, "hashing"),
        (dsjson, Columns(), {"missing": "error"}, "missing"),
        (dsjson, Columns(), {"separator": ";"}, "separator"),
        (export, Columns(), {"missing": "error"}, "missing"),
        (export, context, {}, "Columns.context=...."),
        (export, Columns(), {"hashing": Hashing(8)}, "hashing"),
        (open_bandit, Columns(), {"sparse": True}, "sparse"),
        (store, Columns(), {"crosses": ()}, "crosses"),
        (store, Columns(reward="click"), {}, "Columns.reward=...."),
    ):
        with pytest.raises(InvalidInput, match=f"{name} does not apply to"):
            open_log_or_store(str(address), columns, **settings)


def test_separator_of_an_arm_table_may_differ_from_the_log(tmp_path: Path) -> None:
    pl.DataFrame(TABLE | {"propensity": [0.5, 0.5]}).write_parquet(tmp_path / "log.parquet")
    (tmp_path / "arms.csv").write_text("name;price\na;1\nb;2\n")
    for name in ("auto", "parquet"):
        log = open_log(tmp_path / "log.parquet", format=name, arm_table=tmp_path / "arms.csv", separator=";")
        assert log.dim == 1


def test_decimal_commas_of_an_arm_table_equal_those_of_read_csv(tmp_path: Path) -> None:
    log, arms = tmp_path / "log.csv", tmp_path / "arms.csv"
    log.write_text("arm;reward;propensity\na;0;0.5\nb;1;0.5\n")
    arms.write_text("name;price\na;1.234\nb;2.500\n")
    kinds = {"price": "decimal_comma"}
    for read in (open_log, read_csv):
        opened = read(log, Columns(), arm_table=arms, separator=";", kinds=kinds)
        assert isinstance(opened.feature_map, FeatureMap)
        assert getattr(opened.feature_map.kinds["price"], "mean", None) == (1234 + 2500) / 2


@pytest.mark.parametrize(
    ("options", "arms", "message"),
    [
        (
            ("--reward", "click"),
            None,
            "Name the columns with --arm, --reward and --propensity; if the propensities are not",
        ),
        (("--reward", "click"), None, "not known, set --estimate-propensities"),
        ((), None, "not known, set --estimate-propensities and estimate them"),
        (("--per-arm", "near_{arm}"), None, "--per-arm needs a column for every arm"),
        (("--probabilities", "near_a"), None, "set --probabilities ''"),
        (ARMS, "name\nb\n", "row 0: the value must be one of 'b'; got 'a'. Add the arm to --arm-table"),
        (ARMS, "name\na\na\n", "column 'name', row 0: the value must name each arm of --arm-table once"),
        (ARMS, "", "--arm-table: arms.csv could not be read"),
        (("--context", "price"), None, "Use --kind price=number to parse them, or --kind price=category"),
        (("--context", "age", "--missing", "error"), None, "use --missing indicator or --missing impute"),
    ],
)
def test_errors_of_a_command_name_options(
    tmp_path: Path, options: tuple[str, ...], arms: str | None, message: str
) -> None:
    columns = {"price": ["1.5", "2.5"], "age": [1.0, None]}
    pl.DataFrame(TABLE | columns).write_parquet(tmp_path / "log.parquet")
    if arms is not None:
        (tmp_path / "arms.csv").write_text(arms)
    run = glb("evaluate", "log.parquet", *options, folder=tmp_path)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Columns(" not in run.stderr
