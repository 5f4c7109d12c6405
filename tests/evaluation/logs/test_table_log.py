from time import perf_counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glbandits import InvalidInput
from glbandits.evaluation import Columns, CrossedArms, FixedArms, Log, LoggedData, RowArms, read_table
from glbandits.evaluation.logs.table_layout import read_arms
from glbandits.features import FeatureMap
from glbandits.features.natural_order import natural_order

TABLE: dict[str, Any] = {
    "arm": ["b", "a", "b"],
    "reward": [1.0, 0.0, 1.0],
    "propensity": [0.5, 0.25, 0.5],
    "age": [3, 4, 5],
    "land": ["fr", "de", "fr"],
    "mobile": [True, False, True],
    "near_a": [0.1, 0.2, 0.3],
    "near_b": [1.1, 1.2, 1.3],
    "user": ["x", "y", "x"],
}
LISTS: dict[str, Any] = {
    "arm": ["b", "a", "c"],
    "arms": [["a", "b"], ["a"], ["c", "b", "a"]],
    "reward": [1, 0, 1],
    "propensity": [0.5, 1.0, 0.2],
    "age": [3, 4, 5],
    "near_a": [0.1, 0.2, 0.3],
    "near_b": [1.1, 1.2, 1.3],
    "near_c": [2.1, 2.2, 2.3],
}
ARMS = {"name": ["b", "a"], "price": [2.0, 1.0], "kind": ["shoe", "hat"]}


def changed(column: str, row: int, value: object, table: dict[str, Any] = TABLE) -> dict[str, Any]:
    values = list(table[column])
    values[row] = value
    return {**table, column: values}


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
    with pytest.raises(InvalidInput, match="the feature map needs column 'age', which is neither in the context"):
        read_table(TABLE, Columns(), arm_table=ARMS, features=features)
    with pytest.raises(InvalidInput, match="missing applies to a feature map that is learned from the log"):
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
    with pytest.raises(
        InvalidInput, match="kinds has 'lnd', which is not a column of features. Columns of features: age, land"
    ):
        read_table(TABLE, columns, kinds={"lnd": "skip"})
    with pytest.raises(InvalidInput, match="column 'age' has 1 missing values"):
        read_table(changed("age", 1, None), columns, missing="error")


def test_missing_values_of_the_context_are_marked() -> None:
    log = read_table(changed("land", 1, None), Columns(context=("land",)))
    assert isinstance(log.arms, CrossedArms)
    assert log.arms.contexts.tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0]]


def test_numbers_as_text_need_a_kind() -> None:
    odd = {**TABLE, "age": ["12%", "3%", 5]}
    with pytest.raises(InvalidInput, match=r"column 'age' contains numbers written as text .*kinds={'age': 'num"):
        read_table(odd, Columns(context=("age",)))
    log = read_table(odd, Columns(context=("age",)), kinds={"age": "number"})
    assert isinstance(log.arms, CrossedArms)
    assert log.arms.contexts.argmax() == 2


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


@given(st.lists(st.text(alphabet="ab01239- "), unique=True))
def test_natural_order_is_independent_of_input_order(names: list[str]) -> None:
    assert natural_order(names) == natural_order(reversed(names))
    assert sorted(natural_order(names)) == sorted(names)


@given(st.lists(st.integers(0, 10**15), unique=True))
def test_numbers_are_sorted_numerically(numbers: list[int]) -> None:
    assert list(map(int, natural_order(map(str, numbers)))) == sorted(numbers)


WRONG = [
    (
        changed("propensity", 1, 1.5),
        {},
        "column 'propensity', row 1: the value must be a probability above 0 and at most 1; got 1.5",
    ),
    (
        changed("propensity", 1, 0.0),
        {},
        "row 1.*got 0.0. If the propensities are not known, set Columns.propensity=None.",
    ),
    (
        changed("reward", 2, None),
        {},
        "column 'reward', row 2: the value must be a finite number; got none. Fill in or drop",
    ),
    (changed("reward", 2, float("nan")), {}, "column 'reward', row 2: the value must be a finite number; got nan"),
    ({**TABLE, "reward": ["1", "0", "no"]}, {}, "column 'reward', row 2: the value must be a finite number; got 'no'"),
    (changed("arm", 0, None), {}, "column 'arm', row 0: the value must not be missing"),
    ({**TABLE, "age": [None] * 3}, {"context": ("age",)}, "column 'age' has no values. Leave it out"),
    ({**TABLE, "reward": ["1", "0", "12%"]}, {}, "'reward', row 2: .*got '12%'. Write it as a plain number, 0.12 for"),
    (changed("user", 1, None), {"cluster": "user"}, "column 'user', row 1: the value must not be missing"),
    (
        {**TABLE, "arm": [1.0, 2.0, 3.0]},
        {},
        "column 'arm' must name the chosen arm by text or a whole number; got Float",
    ),
    (
        {**TABLE, "age": [{"a": 1}] * 3},
        {"context": ("age",)},
        "column 'age' of the context must have numbers, booleans",
    ),
    (
        {**TABLE, "arms": TABLE["age"]},
        {"arms": "arms"},
        "column 'arms' must have a list of names in each row; got Int64",
    ),
    (
        changed("arm", 1, "b", LISTS),
        {"arms": "arms"},
        "'arm', row 1: the value must be one of the arms of its row, 'a'; got 'b'",
    ),
    (
        changed("arm", 1, "z", LISTS),
        {"arms": "arms"},
        "'arm', row 1: the value must be one of 'a', 'b', 'c'; got 'z'. Add the chosen arm to the list",
    ),
    (
        changed("arms", 2, ["c", "b", "c"], LISTS),
        {"arms": "arms"},
        "column 'arms', row 2: the value must list each arm once; got .'c', 'b', 'c'.. Drop the repetitions",
    ),
    (changed("arms", 1, [], LISTS), {"arms": "arms"}, "column 'arms', row 1: the value must list at least one arm"),
    (changed("arms", 1, None, LISTS), {"arms": "arms"}, "column 'arms', row 1: the value must list at least one arm"),
    (
        {**TABLE, "arm": [0, 1, 0], "z": [[[1]]] * 3},
        {"features": "z"},
        "'arm', row 1: the value must be the index of an arm of its row",
    ),
    (
        {**TABLE, "arm": [0, 0, 0], "z": [[[1]], [[1, 2]], [[1]]]},
        {"features": "z"},
        "'z', row 1: the value must have 1 features",
    ),
    (
        {**TABLE, "arm": [0, 0, 0], "z": [[[1]], [[None]], [[1]]]},
        {"features": "z"},
        "column 'z', row 1: the value must be a finite",
    ),
    (
        {**LISTS, "z": [[[1]], [[1]], [[1]]]},
        {"features": "z", "arms": "arms"},
        "'z', row 0: the value must have a list for each of the 2 arms",
    ),
    ({**TABLE, "near_b": ["x", "y", "z"]}, {"per_arm": ("near_{arm}",)}, "column 'near' contains numbers and text"),
    (
        {**TABLE, "z": [[["1"]]] * 3},
        {"features": "z"},
        "column 'z' must have a list of lists of numbers, one for each arm",
    ),
    ({name: values[:0] for name, values in TABLE.items()}, {}, "the table has no rows"),
]


@pytest.mark.parametrize(("table", "columns", "message"), WRONG)
def test_errors_name_the_column_and_the_row(table: dict[str, Any], columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_table(table, Columns(**columns))


def test_rewards_outside_the_link_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="column 'reward', row 1: .*logistic"):
        read_table(changed("reward", 1, 2.0), Columns(), link="logistic")


def test_missing_columns_are_listed_with_suggestions() -> None:
    frame = pl.DataFrame(TABLE).rename({"propensity": "propensity_score"})
    with pytest.raises(InvalidInput) as caught:
        read_table(frame, Columns(context=("age", "height")))
    message = str(caught.value)
    assert "'propensity' (did you mean 'propensity_score'?), 'height'" in message
    assert "Expected: arm, reward, propensity, age, height" in message
    assert "Found: arm, reward, propensity_score, age, land" in message
    with pytest.raises(InvalidInput, match="no column 'far_a' .did you mean 'near_a'.*'far_b'.*for every arm"):
        read_table(TABLE, Columns(per_arm=("far_{arm}",)))


WRONG_ARMS: list[tuple[dict[str, Any], str | None, str]] = [
    (
        {"name": ["a"], "price": [1.0]},
        None,
        "column 'arm', row 0: the value must be one of 'a'; got 'b'. Add the arm to arm_table",
    ),
    ({"name": ["a", "a"]}, None, "column 'name', row 0: the value must name each arm of arm_table once; got 'a'"),
    ({"name": ["a", None]}, None, "column 'name', row 1: the value must name each arm"),
    ({"name": ["a", "b"]}, "id", "arm_table has no column 'id'.*Set arm_id"),
    ({"name": []}, None, "arm_table must have a row for each arm; got none"),
    ({"price": [1, 2], "arm": ["a", "b"]}, None, "in its first column, which is 'price'. Move the column 'arm' to"),
    ({"name": ["a", " a", "b"]}, None, "the arms ' a' and 'a' differ only in spaces at the ends of their names"),
]


@pytest.mark.parametrize(("arms", "arm_id", "message"), WRONG_ARMS)
def test_invalid_arm_tables_are_rejected(arms: dict[str, Any], arm_id: str | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_table(TABLE, Columns(), arm_table=arms, arm_id=arm_id)


def test_id_columns_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {name: [values[i % 3] for i in range(90)] for name, values in TABLE.items()}
    table["land"] = [f"land {i}" for i in range(90)]
    with pytest.raises(InvalidInput, match="column 'land' contains 90 distinct texts in 90 rows"):
        read_table(table, Columns(context=("land",)))
    monkeypatch.setattr("glbandits.evaluation.logs.log_features.MAX_ARMS", 1)
    with pytest.raises(InvalidInput, match="column 'arm' names 2 different arms"):
        read_table(TABLE, Columns())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"context": (1,)}, "context must be different names of columns"),
        ({"context": 3}, "context must be names of columns"),
        ({"context": ("a", "a")}, "context must be different names"),
        ({"arm": None}, "arm must be the name of a column; got None"),
        ({"per_arm": ("x_{arm}",), "features": "z"}, "per_arm needs the names of the arms"),
    ],
)
def test_invalid_columns_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Columns(**settings)


def test_single_name_is_accepted_for_context() -> None:
    assert Columns(context="age").context == ("age",)  # type: ignore[arg-type]


def test_invalid_tables_are_rejected() -> None:
    with pytest.raises(
        InvalidInput,
        match="a table must be a data frame of polars, pandas or Arrow, a list of dicts, or a dict of .*; got list",
    ):
        read_table([1, 2], Columns())
    with pytest.raises(InvalidInput, match="the columns could not be combined into a table"):
        read_table({"a": [1, 2], "b": [1, 2, 3]}, Columns())
    with pytest.raises(InvalidInput, match="columns must be a Columns object"):
        read_table(TABLE, "arm")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="from the column of features or from arm_table"):
        read_table({**TABLE, "z": [[[1]]] * 3}, Columns(features="z"), arm_table=ARMS)


def same(one: LoggedData, other: LoggedData) -> None:
    for name in ("chosen", "rewards", "propensities", "clusters"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(one.features(), other.features())
    assert one.arm_names == other.arm_names
    assert isinstance(one, Log)


COLUMNS = Columns(context=("age", "land", "mobile"), per_arm=("near_{arm}",), cluster="user")


def test_all_types_of_frames_give_the_same_log() -> None:
    frame = pl.DataFrame(TABLE)
    wanted = read_table(TABLE, COLUMNS)
    same(read_table(frame, COLUMNS), wanted)
    same(read_table(frame.lazy(), COLUMNS), wanted)
    same(read_table(frame.with_columns(pl.col("land", "arm").cast(pl.Categorical)), COLUMNS), wanted)
    same(read_table({name: np.array(values) for name, values in TABLE.items()}, COLUMNS), wanted)
    same(read_table(frame.to_dicts(), COLUMNS), wanted)


def test_pandas_frame_gives_the_same_log() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE)
    same(read_table(frame, COLUMNS), read_table(TABLE, COLUMNS))
    frame["land"], frame["age"] = frame["land"].astype("category"), frame["age"].astype("Int64")
    frame["anything"] = [{"a": 1}, "text", 3]
    same(read_table(frame, COLUMNS), read_table(TABLE, COLUMNS))
    lists = pandas.DataFrame(LISTS)
    same(read_table(lists, Columns(arms="arms")), read_table(LISTS, Columns(arms="arms")))
    frame.loc[1, "age"] = pandas.NA
    same(read_table(frame, COLUMNS), read_table(changed("age", 1, None), COLUMNS))


def test_pandas_frame_may_have_nested_arrays() -> None:
    pandas = pytest.importorskip("pandas")
    vectors = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]], [[7.0, 8.0], [9.0, 10.0], [11.0, 12.0]]]
    table = {**LISTS, "z": vectors}
    frame = pandas.DataFrame(LISTS)
    frame["arms"] = [np.array(names, dtype=object) for names in LISTS["arms"]]
    frame["z"] = [nested(row) for row in vectors]
    columns = Columns(arms="arms", features="z")
    same(read_table(frame, columns), read_table(table, columns))
    same(read_table(frame, Columns(propensity="propensity", arms="arms")), read_table(LISTS, Columns(arms="arms")))
    frame["z"] = [np.array(row) for row in vectors]  # two axes in each row
    same(read_table(frame, columns), read_table(table, columns))
    same(read_table({**table, "z": [nested(row) for row in vectors]}, columns), read_table(table, columns))


def nested(rows: list[list[float]]) -> np.ndarray[Any, Any]:
    """An array of arrays, as pandas returns a nested column of Parquet."""
    out = np.empty(len(rows), dtype=object)
    out[:] = [np.array(row) for row in rows]
    return out


def test_duplicate_pandas_columns_are_rejected() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({**TABLE, "other": [0, 0, 0]})
    twice = pandas.concat([frame, frame[["other"]]], axis=1)
    same(read_table(twice, COLUMNS), read_table(TABLE, COLUMNS))
    with pytest.raises(InvalidInput, match="the table has 2 columns 'other'. Drop or rename all but one"):
        read_table(twice, Columns(context=("other",)))
    with pytest.raises(InvalidInput, match="the table has 2 columns 'other'"):
        read_table(TABLE, Columns(), arm_table=twice)


def test_columns_that_are_not_read_may_have_any_content() -> None:
    odd = {**TABLE, "odd": [nested([[1.0]]), "text", object()]}
    same(read_table(odd, COLUMNS), read_table(TABLE, COLUMNS))
    with pytest.raises(InvalidInput, match="no column 'od'.*did you mean 'odd'"):
        read_table(odd, Columns(context=("od",)))


def test_integers_may_come_before_floats() -> None:
    assert read_table({**TABLE, "reward": [0, 1.5, 2]}, Columns()).rewards.tolist() == [0.0, 1.5, 2.0]
    assert read_table({**TABLE, "reward": [False, 1.5, 2]}, Columns()).rewards.tolist() == [0.0, 1.5, 2.0]
    rows = {"arm": [0, 0, 1], "reward": [0, 1, 2], "propensity": [1, 1, 0.5], "z": [[[0]], [[1.5]], [[2], [0.5]]]}
    assert read_table(rows, Columns(features="z")).features().tolist() == [[[0], [0]], [[1.5], [0]], [[2], [0.5]]]


@pytest.mark.parametrize(
    ("values", "kinds"),
    [([[1], 2, 3], "lists and numbers"), ([{}, 1, 2], "dict and n")],
)
def test_column_of_mixed_types_is_rejected(values: list[object], kinds: str) -> None:
    with pytest.raises(InvalidInput, match=f"column 'reward' must have values of one type; got {kinds}"):
        read_table({**TABLE, "reward": values}, Columns())


@pytest.mark.parametrize("counts", [[1.5, 2.0], [1.0, float("nan")], ["one", "two"], [[1, 2]]])
def test_counts_of_arms_must_be_whole_numbers(counts: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="counts must"):
        RowArms(np.zeros((2, 2, 1)), counts)  # type: ignore[arg-type]
    assert RowArms(np.zeros((2, 2, 1)), np.array([1.0, 2.0])).counts.tolist() == [1, 2]


def test_many_arms_are_sorted_quickly() -> None:
    """A linear search for each name would take 10 seconds; a dict lookup takes less than one."""
    names = [f"item {number}" for number in reversed(range(40_000))]
    start = perf_counter()
    arm_names, arm_values = read_arms(pl.DataFrame({"name": names, "price": np.arange(40_000.0)}))
    assert perf_counter() - start < 4.0
    assert arm_names[:2] == ("item 0", "item 1")
    assert arm_values["price"][:2].tolist() == [39_999.0, 39_998.0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"context": ("age", "click"), "reward": "click"}, "context must not contain the reward column 'click', which"),
        ({"context": ("propensity",)}, "context must not contain the propensity column 'propensity'"),
        ({"context": ("arm",)}, "context must not contain the arm column 'arm'"),
        ({"context": ("probabilities",)}, "context must not contain the probabilities column"),
    ],
)
def test_context_must_be_known_before_the_decision(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Columns(**columns)


def test_context_must_not_contain_the_probability_of_an_arm() -> None:
    table = {"arm": ["a", "b"], "reward": [0, 1], "p_a": [0.5, 0.5], "p_b": [0.5, 0.5], "p_age": [3, 4]}
    assert len(read_table(table, Columns(probabilities="p_{arm}", context=("p_age",)))) == 2
    with pytest.raises(InvalidInput, match="context must not contain 'p_b', the probability of an arm"):
        read_table(table, Columns(probabilities="p_{arm}", context=("p_age", "p_b")))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("reward", ["yes", "no"], "must be a finite number; got 'yes'. Write 1 for yes and 0 for no"),
        ("reward", ["0", "Y"], "got 'Y'. Write 1 for yes and 0 for no"),
        ("propensity", ["0,5", "0,5"], "got '0,5'. Write numbers with a decimal point, such as 0.12"),
        ("propensity", [50.0, 50.0], "at most 1; got 50.0. Divide percentages by 100. If the propensities"),
        ("propensity", [0.5, 0.0], "at most 1; got 0.0. If the propensities"),
    ],
)
def test_errors_of_rewards_and_propensities_give_advice(column: str, values: list[Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_table({"arm": ["a", "b"], "reward": [0, 1], "propensity": [0.5, 0.5], column: values}, Columns())
