from pathlib import Path

import numpy as np
import polars as pl
import pytest

from glbandits import Bandit, InvalidInput, LinUcb, Optimist, SgdTs
from glbandits.evaluation import Columns, evaluate, read_parquet, read_table, train
from glbandits.features import FeatureMap
from tests.cli.in_process import glb

ROWS = 600


def table() -> pl.DataFrame:
    """Young users choose hats, old users shoes. Prices have a percent sign."""
    rng = np.random.default_rng(1)
    age, chosen = rng.integers(18, 80, ROWS), rng.integers(2, size=ROWS)
    clicked = ((age > 45) == (chosen == 1)).astype(int)
    offers = np.array(["hat", "shoe"])[chosen]
    rate = [f"{number}%" for number in rng.integers(100, size=ROWS)]
    return pl.DataFrame({"offer": offers, "click": clicked, "p": 0.5, "age": age, "rate": rate})


COLUMNS = Columns(arm="offer", reward="click", propensity="p", context=("age",))


def test_trained_bandit_takes_rows_with_the_columns_of_its_log(tmp_path: Path) -> None:
    table().write_parquet(tmp_path / "log.parquet")
    for log in (read_table(table(), COLUMNS), read_parquet(tmp_path / "log.parquet", COLUMNS)):
        done: list[int] = []
        bandit = train(log, LinUcb(), progress=lambda rows, _, seen=done: seen.append(rows))
        assert done[-1] == ROWS
        for age, best in ((20, 0), (70, 1)):
            assert bandit.choose([{"offer": "hat", "age": age}, {"offer": "shoe", "age": age}]) == best
    with pytest.raises(InvalidInput, match="policy must be an instance of a subclass"):
        train(log, 3)  # type: ignore[call-overload]


def test_bandit_with_another_feature_map_is_rejected() -> None:
    first, second = read_table(table()[:300], COLUMNS), read_table(table()[300:], COLUMNS)
    bandit = train(first, LinUcb())
    with pytest.raises(InvalidInput, match="the bandit and the log have different feature"):
        evaluate(second, bandit, ["ips"])
    same = read_table(table()[300:], COLUMNS, features=bandit.features)
    assert evaluate(same, bandit, ["snips"])["snips"].value > 0.7


def test_command_trains_the_same_model_as_python(tmp_path: Path) -> None:
    table().write_csv(tmp_path / "log.csv")
    words = ("--arm", "offer", "--reward", "click", "--context", "age,rate", "--link", "logistic")
    asked = glb("train", "log.csv", *words, folder=tmp_path)
    assert asked.returncode == 2
    assert "Option: --kind COLUMN=KIND" in asked.stderr
    run = glb("train", "log.csv", *words, "--kind", "rate=number", "--to", "found/model.safetensors", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "6 features: 2 of arms, 4 products. Each arm has a block of its own." in run.stdout
    assert "600 rows learned" in run.stdout
    loaded = Bandit.load(tmp_path / "found/model.safetensors")
    columns = Columns(arm="offer", reward="click", propensity=None, context=("age", "rate"))
    log = read_table(table(), columns, link="logistic", kinds={"rate": "number"})
    assert loaded.features == log.feature_map
    expected = train(log, Optimist(link="logistic"))
    rows = [{"offer": offer, "age": 70, "rate": "3%"} for offer in ("hat", "shoe")]
    np.testing.assert_allclose(loaded.probabilities(rows), expected.probabilities(rows))


def test_saved_model_is_evaluated_with_its_feature_map(tmp_path: Path) -> None:
    table()[:300].write_csv(tmp_path / "old.csv")
    table()[300:].write_csv(tmp_path / "new.csv")
    words = ("--arm", "offer", "--reward", "click", "--context", "age")
    assert glb("train", "old.csv", *words, folder=tmp_path).returncode == 0
    more = ("--propensity", "p", "--policy", "uniform", "--model", "model.safetensors", "--estimator", "snips")
    run = glb("evaluate", "new.csv", *words, *more, folder=tmp_path)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kind", "rate"), "--kind is written column=kind"),
        (("--crosses", "age"), "--crosses is all, none, or pairs such as country:topic,age:topic; got 'age'"),
        (
            ("--crosses", "agee:offer"),
            "crosses contains 'agee', which is no column of the map. The columns are: age, offer",
        ),
    ],
)
def test_invalid_options_are_rejected(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    table().write_csv(tmp_path / "log.csv")
    run = glb("train", "log.csv", "--arm", "offer", "--reward", "click", "--context", "age", *words, folder=tmp_path)
    assert run.returncode == 2
    assert message in run.stderr


def test_crosses_are_options(tmp_path: Path) -> None:
    table().write_csv(tmp_path / "log.csv")
    words = ("--arm", "offer", "--reward", "click", "--context", "age")
    for crosses, dim in (("none", 3), ("all", 4), ("age:offer", 5)):
        assert glb("train", "log.csv", *words, "--crosses", crosses, folder=tmp_path).returncode == 0
        features = Bandit.load(tmp_path / "model.safetensors").features
        assert isinstance(features, FeatureMap)
        assert features.dim == dim


def test_policy_that_still_chooses_at_random_is_reported() -> None:
    small = {"arm": ["a", "b"] * 10, "reward": [0, 1] * 10, "propensity": [0.5] * 20}
    with pytest.warns(UserWarning, match="sgd-ts still chooses at random: it has"):
        train(read_table(small, Columns()), SgdTs(block_length=30))
    train(read_table(small, Columns()), SgdTs(block_length=20))
