from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits import Bandit, InvalidInput, Optimist
from glbandits.evaluation import Columns, SparseArms, estimate_propensities, evaluate, open_log, play_log, train
from glbandits.features import FeatureMap, Text
from tests.evaluation.sparse_data import as_dense

pytestmark = pytest.mark.filterwarnings("ignore:the effective sample size of")
ROWS = 60
WORDS = ("red", "shoe", "hat", "blue")


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not compile: compiling a policy takes longer than all of these tests."""
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")


def table() -> dict[str, Any]:
    """Two offers; the second is better for those who search for shoes."""
    rng = np.random.default_rng(1)
    searches = [" ".join(rng.choice(WORDS, 2)) for _ in range(ROWS)]
    chosen = rng.integers(2, size=ROWS)
    likes = np.array(["shoe" in text for text in searches]) == (chosen == 1)
    return {
        "arm": np.array(["a", "b"])[chosen].tolist(),
        "reward": (rng.random(ROWS) < 0.2 + 0.6 * likes).astype(int).tolist(),
        "propensity": [0.5] * ROWS,
        "age": rng.integers(18, 80, ROWS).tolist(),
        "search": searches,
        "fit_a": rng.random(ROWS).tolist(),
        "fit_b": rng.random(ROWS).tolist(),
        "offered": [["a", "b"] if row % 3 else ["b", "a", "c"] for row in range(ROWS)],
        "vectors": [[[1.0, 0.0], [0.0, row]] for row in range(ROWS)],
        "index": chosen.tolist(),
    }


ARMS = {"arm": ["a", "b"], "price": [1.0, 3.0], "text": ["red shoe", "blue hat"]}


@pytest.mark.parametrize(
    ("columns", "settings"),
    [
        (Columns(), {}),
        (Columns(context=("age", "search")), {"kinds": {"search": "text"}}),
        (Columns(context=("age",), per_arm=("fit_{arm}",)), {}),
        (Columns(context=("age",)), {"arm_table": ARMS, "kinds": {"text": "text"}, "crosses": [("age", "text")]}),
        (Columns(context=("age",), arms="offered"), {}),
        (Columns(arm="index", features="vectors", context=("age",)), {}),
    ],
)
def test_sparse_tables_equal_dense_tables(columns: Columns, settings: Any) -> None:
    vectors, rows = (open_log(table(), columns, sparse=thin, **settings) for thin in (False, True))
    (dense,), (thin,) = vectors.blocks(), rows.blocks()
    assert isinstance(thin.arms, SparseArms)
    np.testing.assert_array_equal(as_dense(thin.arms.every_arm(), thin.dim), dense.features()[dense.arm_mask])
    assert (thin.arms.same_arms, thin.arm_names) == (dense.arms.same_arms, dense.arm_names)
    np.testing.assert_array_equal(thin.chosen, dense.chosen)


def test_sklearn_transformer_gives_sparse_rows() -> None:
    class Doubles:
        def transform(self, frame: Any) -> Any:
            return np.column_stack([np.asarray(frame["age"]) * 2.0, np.asarray(frame["arm"]) == "a"])

        def get_feature_names_out(self) -> list[str]:
            return ["age", "a"]

    blocks = [
        next(iter(open_log(table(), Columns(context=("age",)), features=Doubles(), sparse=thin).blocks()))
        for thin in (False, True)
    ]
    assert isinstance(blocks[1].arms, SparseArms)
    np.testing.assert_array_equal(as_dense(blocks[1].arms.every_arm(), 2), blocks[0].features()[blocks[0].arm_mask])


def test_wide_maps_are_sparse_by_default() -> None:
    columns = Columns(context=("search",))

    def is_sparse(size: int, **settings: Any) -> bool:
        return open_log(table(), columns, kinds={"search": Text(size)}, **settings).sparse

    assert not is_sparse(2047)
    assert is_sparse(2048)
    assert not is_sparse(2048, sparse=False)


def test_bandit_decides_after_csv_with_wide_text(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    pl.DataFrame({name: table()[name] for name in ("arm", "reward", "propensity", "search")}).write_csv(path)
    columns, kinds = Columns(context=("search",)), {"search": Text(2**22)}
    log = open_log(path, columns, kinds=kinds, link="logistic")
    assert (log.sparse, log.dim) == (True, 2 + 2 * 2**22)
    assert play_log(Optimist(), log, seed=1, learn="all").events == ROWS
    trained = train(log, Optimist())
    trained.training = None
    assert all(0.4 < each.value < 1 for each in evaluate(log, trained, ("snips", "dr")).estimates)
    trained.save(tmp_path / "model.safetensors")
    bandit = Bandit.load(tmp_path / "model.safetensors")
    assert isinstance(bandit.features, FeatureMap)
    assert bandit.probabilities([{"arm": arm, "search": "red shoe"} for arm in "ab"])[1] > 0.5
    again = open_log(path, columns, features=bandit.features, link="logistic")
    assert evaluate(again, bandit, "ips").estimates[0].value > 0


def test_propensity_estimation_of_sparse_rows_is_rejected() -> None:
    log = open_log(table(), Columns(propensity=None), sparse=True)
    with pytest.raises(InvalidInput, match="propensities cannot be estimated from sparse"):
        estimate_propensities(log)
