from pathlib import Path

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, CrossedArms, open_log
from glbandits.evaluation.readers.open_bandit import read_open_bandit
from tests.evaluation.readers.open_bandit_data import sample

ROWS = """,timestamp,item_id,position,click,propensity_score,\
user_feature_0,user_feature_1,user_feature_2,user_feature_3,user-item_affinity_0,user-item_affinity_1
0,2019-11-24 00:00:34+00:00,1,3,0,0.5,u,v,w,x,0.0,1.0
1,2019-11-24 00:00:35+00:00,0,1,1,0.25,u,v,w,y,2.0,0.0
2,2019-11-24 00:00:36+00:00,1,1,0,0.75,t,v,w,y,0.0,3.0
"""
ITEMS = """,item_id,item_feature_0,item_feature_1,item_feature_2,item_feature_3
0,0,-0.5,a,b,c
1,1,0.25,a,d,c
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "men.csv").write_text(ROWS)
    (tmp_path / "item_context.csv").write_text(ITEMS)
    return tmp_path


def test_folder_is_read(folder: Path) -> None:
    log = read_open_bandit(folder).read()
    assert isinstance(log.arms, CrossedArms)
    assert log.arm_names == ("0", "1")
    assert log.chosen.tolist() == [1, 0, 1]
    assert log.rewards.tolist() == [0, 1, 0]
    assert log.propensities is not None
    assert log.propensities.tolist() == [0.5, 0.25, 0.75]
    assert log.feature_map is not None
    assert "user_feature_0=other" in log.feature_map.names


def test_rows_are_in_the_order_of_their_times(folder: Path) -> None:
    head, *rows = ROWS.splitlines()
    (folder / "men.csv").write_text("\n".join([head, *reversed(rows)]))
    assert read_open_bandit(folder).read().rewards.tolist() == [0.0, 1.0, 0.0]


def test_single_position_can_be_selected(folder: Path) -> None:
    log = open_log(folder, position=1)
    assert len(log) == 2
    assert next(log.blocks()).chosen.tolist() == [0, 1]
    with pytest.raises(InvalidInput, match="position must be a whole number of at least 1"):
        read_open_bandit(folder, position=4)


def test_affinities_may_be_missing(folder: Path) -> None:
    pl.read_csv(folder / "men.csv").select(pl.exclude("^user-item.*$")).write_csv(folder / "men.csv")
    assert read_open_bandit(folder).dim == 18


def test_other_folders_are_rejected(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="Columns.reward does not apply to"):
        open_log(folder, Columns(reward="x"))
    (folder / "women.csv").write_text(ROWS)
    with pytest.raises(InvalidInput, match="one file of rows, such as men.csv"):
        read_open_bandit(folder)
    with pytest.raises(InvalidInput, match="no such folder"):
        read_open_bandit(folder / "none")
    (folder / "women.csv").unlink()
    (folder / "men.csv").write_text("a,click\n1,0\n")
    with pytest.raises(InvalidInput, match="men.csv has no column 'item_id'"):
        read_open_bandit(folder)


@pytest.mark.parametrize(("campaign", "items"), [("all", 80), ("men", 34), ("women", 46)])
def test_real_sample_is_read(campaign: str, items: int) -> None:
    for behavior in ("random", "bts"):
        folder = sample(behavior, campaign)
        raw, log = pl.read_csv(folder / f"{campaign}.csv"), read_open_bandit(folder)
        whole = log.read()
        assert len(log) == sum(map(len, log.blocks())) == 10_000
        assert log.arm_names == tuple(map(str, range(items)))
        np.testing.assert_array_equal(whole.chosen, raw["item_id"])
        np.testing.assert_array_equal(whole.rewards, raw["click"])
        if behavior == "random":
            assert whole.propensities is not None
            np.testing.assert_allclose(whole.propensities, 1 / items)
