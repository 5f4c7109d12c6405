"""The link of a log is inferred from its rewards, in the same way by all readers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits.evaluation import Columns, FixedArms, LoggedData, open_log, read_table
from glbandits.evaluation.logs.logged_data import Log
from tests.evaluation.readers.test_dsjson import EVENT

COLUMNS = Columns(propensity=None)


def link_of(log: Log) -> object:
    return log.schema.link


@pytest.mark.parametrize(
    ("rewards", "link"),
    [
        ([0, 1, 1], "logistic"),
        ([0.0, 1.0, 0.0], "logistic"),
        ([True, False, True], "logistic"),
        (["yes", "no", "yes"], "logistic"),
        (["1", "0", "0"], "logistic"),
        ([0, 1, 2], "identity"),
        ([0.0, 0.5, 1.0], "identity"),
        ([-1, 0, 1], "identity"),
        ([0, 0, 0], "identity"),
        ([1, 1, 1], "identity"),
        (["0", "1", "7"], "identity"),
    ],
)
def test_link_is_logistic_only_for_rewards_0_and_1(rewards: list[Any], link: str, tmp_path: Path) -> None:
    table = {"arm": ["a", "b", "a"], "reward": rewards}
    pl.DataFrame(table).write_parquet(tmp_path / "log.parquet")
    pl.DataFrame(table).write_csv(tmp_path / "log.csv")
    logs = [read_table(table, COLUMNS), *(open_log(tmp_path / name, COLUMNS) for name in ("log.parquet", "log.csv"))]
    assert [link_of(log) for log in logs] == [link] * 3
    assert link_of(read_table(table, COLUMNS, link="identity")) == "identity"


def test_link_of_arrays_is_kept_by_their_parts() -> None:
    bits = np.array([0, 1, 1])
    log = LoggedData(chosen=bits, rewards=bits.astype(float), arms=FixedArms(np.eye(2), rows=3))
    assert (log.link, log[1:].link) == ("logistic", "logistic")


def test_link_of_costs_of_minus_1_and_0_is_logistic(tmp_path: Path) -> None:
    for cost, link in ((0, "logistic"), (-2, "identity")):
        lines = [EVENT, EVENT | {"_label_cost": cost, "EventId": "other"}]
        (tmp_path / "log.dsjson").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        assert link_of(open_log(tmp_path / "log.dsjson")) == link
