"""Errors about a log name the options of the command."""

from pathlib import Path

import polars as pl
import pytest

from glbandits import InvalidInput
from glbandits.cli.log_file import FORMATS, LogFile, said_as_options
from glbandits.evaluation import Columns
from tests.cli.in_process import glb

TABLE = {"arm": ["a", "b"], "reward": [0, 1], "propensity": [0.5, 1.5], "near_a": [1, 2]}


@pytest.mark.parametrize(
    ("columns", "arms", "message"),
    [
        (Columns(reward="click"), None, "Say what they are called: --arm, --reward, --propensity .or --estimate-prop"),
        (Columns(), None, "row 1: .* got 1.5. If the propensities are not known, say --estimate-propensities"),
        (Columns(per_arm=("near_{arm}",)), None, "no column 'near_b'.* --per-arm needs a column for every arm"),
        (Columns(), "name\nb\n", "row 0: the value must be one of 'b'; got 'a'. Add the arm to --arm-table"),
        (Columns(), "name\na\na\n", "column 'name', row 0: the value must name each arm of --arm-table once"),
        (Columns(), "", "/arm_table.csv could not be read"),
    ],
)
def test_errors_name_options(tmp_path: Path, columns: Columns, arms: str | None, message: str) -> None:
    pl.DataFrame(TABLE).write_parquet(tmp_path / "log.parquet")
    arm_table = None if arms is None else tmp_path / "arm_table.csv"
    if arms is not None:
        (tmp_path / "arm_table.csv").write_text(arms)
    file = LogFile(
        address=str(tmp_path / "log.parquet"), columns=columns, arm_table=arm_table, link=None, loop="default"
    )
    with pytest.raises(InvalidInput, match=message) as caught, said_as_options():
        list(FORMATS["auto"](file).blocks())
    assert "Columns(" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--reward", "click"), "Say what they are called: --arm, --reward, --propensity (or --estimate-propensities"),
        ((), "got 1.5. If the propensities are not known, say --estimate-propensities"),
    ],
)
def test_the_command_says_so(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    pl.DataFrame(TABLE).write_parquet(tmp_path / "log.parquet")
    run = glb("evaluate", "log.parquet", *words, folder=tmp_path)
    assert run.returncode == 2
    assert message in run.stderr
