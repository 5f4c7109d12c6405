"""Logs from tables: arms, features, context and clusters."""

import numpy as np
import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, CrossedArms, FixedArms, RowArms, read_table
from glbandits.features import FeatureMap
from tests.evaluation.readers.table_data import ARMS, LISTS, TABLE, changed


def test_log_without_context_has_fixed_arms() -> None:
    log = read_table(TABLE, Columns())
    assert isinstance(log.arms, FixedArms)
    np.testing.assert_array_equal(log.arms.arms, np.eye(2))
    assert log.arm_names == ("a", "b")
    assert log.chosen.tolist() == [1, 0, 1]
    assert log.rewards.tolist() == [1.0, 0.0, 1.0]
    assert log.propensities is not None
    assert log.propensities.tolist() == [0.5, 0.25, 0.5]
    assert log.clusters is None


def test_context_is_crossed_with_the_arms() -> None:
    columns = Columns(context=("age", "land", "mobile"), per_arm=("near_{arm}",))
    kinds: dict[str, str] = dict.fromkeys(("age", "near", "price"), "raw")
    log = read_table(TABLE, columns, arm_table=ARMS, kinds=kinds)
    assert isinstance(log.arms, CrossedArms)
    np.testing.assert_array_equal(log.arms.contexts, [[3, 0, 1, 0, 1], [4, 1, 0, 0, 0], [5, 0, 1, 0, 1]])
    np.testing.assert_array_equal(log.arms.arms, [[1, 1, 0, 0], [2, 0, 1, 0]])
    assert log.arms.own is not None
    np.testing.assert_array_equal(log.arms.own[:, :, 0], [[0.1, 1.1], [0.2, 1.2], [0.3, 1.3]])
    z, x = np.array([2.0, 0, 1, 0]), np.array([3.0, 0, 1, 0, 1])
    np.testing.assert_array_equal(log.features()[0, 1], [*z, *x, *np.outer(x, z).ravel(), 1.1])
    assert log.feature_map is not None
    row = {"price": 2.0, "kind": "shoe", "age": 3, "land": "fr", "mobile": True, "near": 1.1}
    np.testing.assert_array_equal(log.feature_map.transform([row])[0], log.features()[0, 1])


def test_numbers_of_a_log_are_centred_and_scaled() -> None:
    log = read_table(TABLE, Columns(context=("age",)))
    assert isinstance(log.arms, CrossedArms)
    np.testing.assert_allclose(log.arms.contexts[:, 0], [-np.sqrt(1.5), 0.0, np.sqrt(1.5)])


def test_given_feature_map_is_used() -> None:
    features = FeatureMap(context={"age": "raw"}, arm={"price": "raw"})
    log = read_table(TABLE, Columns(context=("age", "land")), arm_table=ARMS, features=features)
    assert log.feature_map is features
    assert log.features()[2].tolist() == [[1, 5, 5], [2, 5, 10]]
    with pytest.raises(InvalidInput, match="the feature map needs column 'age'"):
        read_table(TABLE, Columns(), arm_table=ARMS, features=features)
    with pytest.raises(InvalidInput, match="already has a feature map"):
        read_table(TABLE, Columns(context=("age",)), arm_table=ARMS, features=features, missing="error")


def test_transformer_computes_features_of_rows_and_arms() -> None:
    compose = pytest.importorskip("sklearn.compose")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"age": [3, 4, 5], "kind": ["hat", "shoe", "hat"], "near": [0.0, 1.0, 2.0]})
    parts = [("kind", preprocessing.OneHotEncoder(), ["kind"]), ("rest", "passthrough", ["age", "near"])]
    transformer = compose.ColumnTransformer(parts).fit(rows)
    columns = {"context": ("age",), "per_arm": ("near_{arm}",)}
    log = read_table(TABLE, Columns(**columns), arm_table=ARMS, features=transformer)  # type: ignore[arg-type]
    assert log.features()[2].tolist() == [[1, 0, 5, 0.3], [0, 1, 5, 1.3]]
    assert log.arms.same_arms
    assert log[1:].arms.same_arms
    lists = {**LISTS, "arm": ["b", "a", "b"], "arms": [["a", "b"], ["a"], ["b", "a"]]}
    own = Columns(**columns, arms="arms")  # type: ignore[arg-type]
    assert read_table(lists, own, arm_table=ARMS, features=transformer).features()[1:].tolist() == [
        [[1, 0, 4, 0.2], [0, 0, 0, 0]],
        [[0, 1, 5, 1.3], [1, 0, 5, 0.3]],
    ]


def test_options_are_passed_to_the_feature_map() -> None:
    columns = Columns(context=("age", "land"))
    dims = {
        "all": read_table(TABLE, columns).dim,
        "pairs": read_table(TABLE, columns, crosses=[("land", "arm")]).dim,
        "block": read_table(TABLE, columns, arm_table=ARMS, per_arm_block=True).dim,
        "skip": read_table(TABLE, columns, kinds={"land": "skip"}).dim,
    }
    assert dims == {"all": 2 + 8, "pairs": 2 + 4 + 6, "block": (2 + 1 + 3) * (1 + 4), "skip": 2 + 2}
    with pytest.raises(InvalidInput, match="kinds has 'lnd', which is not a column"):
        read_table(TABLE, columns, kinds={"lnd": "skip"})
    with pytest.raises(InvalidInput, match="column 'age' has 1 missing values"):
        read_table(changed("age", 1, None), columns, missing="error")


def test_missing_values_of_the_context_are_marked() -> None:
    log = read_table(changed("land", 1, None), Columns(context=("land",)))
    assert isinstance(log.arms, CrossedArms)
    assert log.arms.contexts.tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0]]


def test_numbers_as_text_need_a_kind() -> None:
    odd = {**TABLE, "age": ["$12", "1,300.5", 5]}
    with pytest.raises(InvalidInput, match=r"column 'age' contains numbers written as text .*kinds={'age': 'num"):
        read_table(odd, Columns(context=("age",)))
    log = read_table(odd, Columns(context=("age",)), kinds={"age": "number"})
    assert isinstance(log.arms, CrossedArms)
    assert log.arms.contexts.argmax() == 1


def test_context_without_crosses_is_appended() -> None:
    log = read_table(TABLE, Columns(context=("age",)), arm_table=ARMS, crosses=(), kinds={"age": "raw", "price": "raw"})
    np.testing.assert_array_equal(log.features()[2], [[1, 1, 0, 0, 5], [2, 0, 1, 0, 5]])


def test_arm_table_may_have_arms_never_chosen() -> None:
    arms = {"price": [1.0, 2.0, 3.0], "id": ["c", "b", "a"]}
    log = read_table(TABLE, Columns(), arm_table=arms, arm_id="id", kinds={"price": "raw"})
    assert log.arm_names == ("a", "b", "c")
    np.testing.assert_array_equal(log.features()[0], [[3.0], [2.0], [1.0]])
    np.testing.assert_array_equal(
        read_table(TABLE, Columns(), arm_table={"id": ["b", "a", "z"]}).features()[0], np.eye(3)
    )


def test_arms_may_differ_between_rows() -> None:
    log = read_table(LISTS, Columns(arms="arms"))
    assert isinstance(log.arms, RowArms)
    assert log.arms.counts.tolist() == [2, 1, 3]
    assert log.chosen.tolist() == [1, 0, 0]
    assert log.arm_names is None
    np.testing.assert_array_equal(log.features()[2], np.eye(3)[::-1])
    np.testing.assert_array_equal(log.features()[1], [[1, 0, 0], [0, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("cross", [True, False])
def test_different_arms_are_crossed_with_the_context(cross: bool) -> None:
    every = {**LISTS, "arms": [["a", "b", "c"]] * 3}
    columns = {"context": ("age",), "per_arm": ("near_{arm}",)}
    fixed, rows, some = (
        read_table(table, Columns(**columns, **more), crosses="all" if cross else ())  # type: ignore[arg-type]
        for table, more in ((every, {}), (every, {"arms": "arms"}), (LISTS, {"arms": "arms"}))
    )
    np.testing.assert_array_equal(fixed.features(), rows.features())
    assert fixed.dim == rows.dim == (7 if cross else 5)
    np.testing.assert_array_equal(some.features()[2], fixed.features()[2, ::-1])
    assert not some.features()[1, 1:].any()


def test_features_of_rows_with_indices_or_names() -> None:
    vectors = [[[1, 2], [3, 4]], [[5, 6]], [[7, 8], [9, 10], [11, 12]]]
    by_place = read_table(
        {**LISTS, "place": [1, 0, 0], "z": vectors},
        Columns(arm="place", features="z", context=("age",)),
        kinds={"age": "raw"},
    )
    by_name = read_table(
        {**LISTS, "z": vectors}, Columns(arms="arms", features="z", context=("age",)), kinds={"age": "raw"}
    )
    for log in (by_place, by_name):
        assert log.chosen.tolist() == [1, 0, 0]
        np.testing.assert_array_equal(log.features()[0], [[1, 2, 3, 3, 6], [3, 4, 3, 9, 12], [0] * 5])


def test_features_may_be_an_array() -> None:
    z = np.random.default_rng(1).normal(size=(3, 4, 2))
    log = read_table({"arm": [3, 0, 1], "reward": [0, 1, 2], "propensity": [0.25] * 3, "z": z}, Columns(features="z"))
    np.testing.assert_array_equal(log.features(), z)
    assert log.chosen.tolist() == [3, 0, 1]


def test_clusters_may_have_any_type() -> None:
    text = read_table(TABLE, Columns(cluster="user")).clusters
    number = read_table(TABLE, Columns(cluster="age")).clusters
    assert text is not None
    assert number is not None
    assert text[0] == text[2] != text[1]
    assert number.tolist() == [3, 4, 5]


def test_arms_are_in_natural_order() -> None:
    log = read_table({"arm": [10, 9, 100], "reward": [0, 0, 0]}, Columns(propensity=None))
    assert log.arm_names == ("9", "10", "100")
    assert log.propensities is None


def test_single_name_is_accepted_for_context() -> None:
    assert Columns(context="age").context == ("age",)  # type: ignore[arg-type]
