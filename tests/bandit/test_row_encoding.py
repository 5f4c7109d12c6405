import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from glbandits import Bandit, InvalidInput, LinUcb, ModelFileError, Optimist
from glbandits.features import FeatureMap
from tests.bandit.model_files import forged

ROWS: list[dict[str, Any]] = [
    {"topic": "news", "age": 20},
    {"topic": "sports", "age": 30},
    {"topic": "news", "age": 70},
]
FEATURES = FeatureMap.learn(ROWS, arm=("topic",), context=("age",))


def trained(features: Any = FEATURES) -> Bandit:
    bandit = Bandit(LinUcb(), features=features, seed=1)
    for row in ROWS:
        bandit.learn(row, reward=float(row["topic"] == "sports"))
    return bandit


def test_rows_and_arrays_give_the_same_decisions() -> None:
    bandit, arrays = trained(), Bandit(LinUcb(), dim=FEATURES.dim, seed=1)
    X = FEATURES.transform(ROWS)
    arrays.learn_batch(X, [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(bandit.state, arrays.state)
    batch = Bandit(LinUcb(), features=FEATURES, seed=1)
    batch.learn_batch(pd.DataFrame(ROWS), [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(batch.state, arrays.state)
    for rows in (
        ROWS,
        tuple(ROWS),
        pd.DataFrame(ROWS),
        pl.DataFrame(ROWS),
        {"topic": ["news", "sports"], "age": 30},
        X,
    ):
        assert bandit.choose(rows) == 1
    np.testing.assert_array_equal(bandit.probabilities(ROWS), arrays.probabilities(X))
    exact = bandit.exact_probabilities(ROWS)
    assert exact is not None
    np.testing.assert_array_equal(exact, arrays.probabilities(X))


def test_feature_map_is_saved_with_the_model(tmp_path: Path) -> None:
    bandit = trained()
    bandit.save(tmp_path / "model.safetensors")
    loaded = Bandit.load(tmp_path / "model.safetensors")
    assert loaded.features == FEATURES
    assert loaded.choose(ROWS) == bandit.choose(ROWS)
    for copy in (bandit.copy(), pickle.loads(pickle.dumps(bandit)), Bandit.from_bytes(bandit.to_bytes())):
        assert copy.features == FEATURES
    with pytest.raises(ModelFileError, match="was saved with other features than the given"):
        Bandit.load(tmp_path / "model.safetensors", features=FeatureMap(context={"age": "number"}))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("{}", "the feature map has format version None; this version of glbandits reads 1. Upgrade glbandits"),
        ("not JSON", "was changed or damaged"),
        ("[" * 100_000, "was changed or damaged"),
        (
            json.dumps(FeatureMap(context={"age": "number"}).document()),
            "was saved with other features than the given ones",
        ),
        (json.dumps({**FEATURES.document(), "arm": {"x": {"kind": "__import__"}}}), "unknown kind of a column"),
    ],
)
def test_invalid_feature_maps_in_a_file_are_refused(features: str, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        Bandit.from_bytes(forged(trained().to_bytes(), {"features": features}))


def test_scikit_learn_transformer_replaces_a_feature_map(tmp_path: Path) -> None:
    columns = [("topic", OneHotEncoder(), ["topic"]), ("age", StandardScaler(), ["age"])]
    transformer = ColumnTransformer(columns).fit(pd.DataFrame(ROWS))
    bandit = trained(transformer)
    assert bandit.features is not None
    assert bandit.features.names == ("topic__topic_news", "topic__topic_sports", "age__age")
    assert bandit.choose(ROWS) == bandit.choose(pd.DataFrame(ROWS)) == 1
    bandit.save(tmp_path / "model.safetensors")
    with pytest.raises(ModelFileError, match="with the transformer ColumnTransformer, which .* Pass it: Bandit.load"):
        Bandit.load(tmp_path / "model.safetensors")
    assert Bandit.load(tmp_path / "model.safetensors", features=transformer).choose(ROWS) == 1
    with pytest.raises(InvalidInput, match="the transformer ColumnTransformer failed"):
        bandit.choose([{"topic": "news"}])
    with pytest.raises(InvalidInput, match="ColumnTransformer must be fitted"):
        Bandit(LinUcb(), features=ColumnTransformer(columns))


def test_invalid_rows_are_reported() -> None:
    bandit = trained()
    for call, message in (
        (
            lambda: bandit.choose([ROWS[0], {"topic": "news", "age": "old"}]),
            "column 'age', row 1: the value must be a number",
        ),
        (lambda: bandit.choose([{"topic": "news", "agee": 3}]), "has the unknown field 'agee'; did you mean 'age'"),
        (lambda: bandit.choose([ROWS[0], 3]), "row 1 must be a dict with a value for each column; got 3"),
        (lambda: bandit.learn(ROWS, 1.0), "x must be one row, the arm with this reward; got 3 rows"),
        (lambda: Bandit(LinUcb(), 3).choose(ROWS), "rows of named values need a feature map"),
        (lambda: Bandit(LinUcb()), "a Bandit needs dim, the number of features of an arm, or features"),
        (
            lambda: Bandit(LinUcb(), 3, features=FEATURES),
            "dim must be 7, the dimension of the .*; got 3. Leave dim out",
        ),
        (lambda: Bandit(LinUcb(), features=3), "features must be a FeatureMap, such as log.feature_map, or a fitted"),
    ):
        with pytest.raises(InvalidInput, match=message):
            call()


def test_row_of_a_data_frame_is_one_row() -> None:
    frame, bandit = pd.DataFrame(ROWS), Bandit(LinUcb(), features=FEATURES, seed=1)
    for index, row in enumerate(ROWS):
        bandit.learn(frame.iloc[index], reward=float(row["topic"] == "sports"))
    np.testing.assert_array_equal(bandit.state, trained().state)
    with pytest.raises(InvalidInput, match="a table must be a list of dicts, .*; got Series"):
        bandit.choose(frame.iloc[0])
    numbers = Bandit(LinUcb(), dim=2, seed=1)
    numbers.learn(pd.DataFrame([[1.0, 0.5]]).iloc[0], 1.0)
    assert numbers.state.any()


def test_sparse_bandit_accepts_rows() -> None:
    policy = Optimist(covariance="diagonal")
    dense, sparse = (Bandit(policy, features=FEATURES, seed=1, sparse=kind) for kind in (False, True))
    for row in ROWS * 3:
        for bandit in (dense, sparse):
            bandit.learn(row, reward=float(row["topic"] == "sports"))
    dense.learn_batch(ROWS, [0.0, 1.0, 0.0])
    sparse.learn_batch(ROWS, [0.0, 1.0, 0.0])
    np.testing.assert_allclose(sparse.probabilities(ROWS), dense.probabilities(ROWS), atol=1e-9)
    again = Bandit.from_bytes(sparse.to_bytes())
    assert again.features == FEATURES
    assert again.choose(ROWS) == sparse.choose(ROWS)


@pytest.mark.parametrize("sparse", [False, True])
def test_batch_without_rows_changes_nothing(sparse: bool) -> None:
    bandit = Bandit(Optimist(), dim=3, seed=1, sparse=sparse)
    before = bandit.state
    bandit.learn_batch(np.empty((0, 3)), [])
    np.testing.assert_array_equal(bandit.state, before)


@pytest.mark.parametrize("rows", [[], None, ()])
def test_decision_without_rows_is_refused(rows: Any) -> None:
    with pytest.raises(InvalidInput, match="a decision needs a row of named values"):
        trained().choose(rows)


def test_equal_features_without_names_are_different_arms() -> None:
    bandit = Bandit(Optimist(), features=FeatureMap(arm={"price": "number"}))
    assert bandit.probabilities([{"price": 3.0}, {"price": 3.0}]).tolist() == [0.5, 0.5]
