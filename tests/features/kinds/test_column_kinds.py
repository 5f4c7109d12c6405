from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glbandits import InvalidInput
from glbandits.common.arrays import Floats
from glbandits.features import Category, Date, FeatureMap, Number, Tags, Text
from glbandits.features.kinds.column_kind import ColumnKind
from glbandits.features.kinds.hashed_text import Hashed
from glbandits.features.kinds.numeric import Boolean, Vector


def encoded(kind: ColumnKind, *values: Any) -> Floats:
    features: Floats = FeatureMap(context={"c": kind}).transform([{"c": value} for value in values])
    return features


def test_numpy_values_have_the_categories_of_python_values() -> None:
    kind = Category(("true", "false", "3"))
    for value, category in ((True, 0), (np.True_, 0), (np.False_, 1), (3, 2), (np.float32(3), 2)):
        assert encoded(kind, value).argmax() == category


def test_true_and_1_are_different_categories_of_a_context() -> None:
    assert encoded(Category(("true", "1")), 1, True).tolist() == [[0, 1, 0], [1, 0, 0]]


ZURICH, DECOMPOSED = "Z\u00fcrich", "Zu\u0308rich"


@pytest.mark.parametrize("same", [DECOMPOSED, f" {ZURICH}\n", f"\t{DECOMPOSED} ", np.str_(f" {ZURICH}")])
def test_spaces_and_unicode_forms_do_not_make_categories_different(same: str) -> None:
    for kind in (Category((ZURICH,)), Category((ZURICH,), other=False), Hashed(64), Text(64), Tags((ZURICH,))):
        first, second = encoded(kind, [ZURICH], [same]) if isinstance(kind, Tags) else encoded(kind, ZURICH, same)
        assert first.tolist() == second.tolist()
        assert first.any()
    learned = FeatureMap.learn({"city": [ZURICH, same, "Bern"]}, context=("city",))
    assert learned.names == ("city=Bern", f"city={ZURICH}", "city=other")


def test_declared_categories_are_normalised() -> None:
    assert Category((DECOMPOSED, " a")).values == Tags((DECOMPOSED, "a ")).values == (ZURICH, "a")
    with pytest.raises(InvalidInput, match="values must be distinct texts; got"):
        Category(("a", " a"))


def test_a_text_of_spaces_is_a_missing_category() -> None:
    assert encoded(Category(("a",), missing="indicator"), "  ", "", None).argmax(axis=1).tolist() == [2, 2, 2]
    learned = FeatureMap.learn({"city": ["a", "  "]}, context=("city",))
    assert learned.names == ("city=a", "city=other", "city=missing")


def test_number_prefers_the_category_without_leading_zeros() -> None:
    assert encoded(Category(("07", "7")), 7, "07", "7").argmax(axis=1).tolist() == [1, 0, 1]
    assert encoded(Category(("07", "007", "00")), 7, 0).argmax(axis=1).tolist() == [3, 2]  # 7 may be either
    with pytest.raises(InvalidInput, match="must be one of '07'; got 7"):
        encoded(Category(("07",), other=False), 7)


def test_numbers_are_scaled_and_missing_ones_marked() -> None:
    values = (20.0, 40, None, float("nan"), np.int64(1), np.float32(60), Decimal(20), "30", " NA ")
    np.testing.assert_allclose(
        encoded(Number(40.0, 10.0), *values),
        np.array([[-2, 0], [0, 0], [0, 1], [0, 1], [-3.9, 0], [2, 0], [-2, 0], [-1, 0], [0, 1]]),
    )
    assert encoded(Number(40.0, 10.0, "impute"), None, 50).tolist() == [[0.0], [1.0]]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (
            Number(missing="error"),
            None,
            "column 'c', row 1: the value is missing. Fill it in, or use missing='indicator'",
        ),
        (Number(), "12.5%", "must be a plain number, such as 12.5; got '12.5%'. Write it without signs"),
        (
            Number(percent=True),
            "5.5",
            "column 'c', row 1: the value must have a percent sign, .*; got '5.5'. If it is a percentage, write '5.5%'",
        ),
        (Number(percent=True, from_text=True), "5,5 %", "a decimal point; got '5,5 %'. Write it as '5.5%'"),
        (Number(from_text=True), "5%", "the value must have no percent sign, .*; got '5%'"),
        (Number(), [1], r"row 1: the value must be a number; got \[1\]"),
        (Category(("0",), other=False), "b", "row 1: the value must be one of '0'; got 'b'"),
        (Date(), "31/1/2025", "row 1: the value must be a date such as 2025-01-31 .*; got '31/1/2025'"),
        (Date(missing="error"), None, "row 1: the value is missing"),
        (Vector(2), [1, None], r"row 1: the value must be a list of 2 finite numbers; got \[1, None\]"),
    ],
)
def test_bad_value_is_reported_with_column_and_row(kind: ColumnKind, value: object, message: str) -> None:
    good: dict[type, object] = {Date: "2025-01-01", Tags: ["a"], Vector: [1, 2]}
    with pytest.raises(InvalidInput, match=message.replace("1e+50", r"1e\+50")):
        encoded(kind, good.get(type(kind), 0), value)


def test_booleans_are_parsed_from_words_and_numbers() -> None:
    values = (True, False, "yes", "F", 1, 0.0, np.True_, None)
    assert encoded(Boolean(), *values).tolist() == [
        [1, 0], [0, 0], [1, 0], [0, 0], [1, 0], [0, 0], [1, 0], [0, 1]
    ]  # fmt: skip


def test_missing_boolean_is_not_false() -> None:
    assert encoded(Boolean("impute", mean=0.75), True, False, None, "NA").ravel().tolist() == [1.0, 0.0, 0.75, 0.75]


def test_array_of_numbers_is_no_array_of_percentages() -> None:
    with pytest.raises(InvalidInput, match="row 1: the value must have a percent sign"):
        FeatureMap(context={"c": Number(percent=True)}).transform({"c": np.array([0.0, 5.5])})


def test_examples_of_percentages_can_be_encoded() -> None:
    kind = Number(0.055, 0.1, "impute", from_text=True, decimal_comma=True, percent=True)
    assert kind.examples == ("5,5%", "15,5%")
    np.testing.assert_allclose(encoded(kind, *kind.examples).ravel(), [0.0, 1.0], atol=1e-12)


def test_categories_are_compared_as_text() -> None:
    kind = Category(("3", "fr", "true"), missing="indicator")
    values = (3, 3.0, "3", "fr", True, "new", None, "")
    assert encoded(kind, *values).argmax(axis=1).tolist() == [0, 0, 0, 1, 2, 3, 4, 4]
    assert encoded(Category(("a",)), "b", None).tolist() == [[0, 1], [0, 1]]


def test_text_features_have_norm_one() -> None:
    text, reordered, other, missing = encoded(Text(512), "Red shoes, red hat", "hat SHOES red red", "blue", None)
    np.testing.assert_array_equal(text, reordered)
    assert np.linalg.norm(text) == pytest.approx(1.0)
    assert np.linalg.norm(other) == pytest.approx(1.0)
    assert not missing.any()


def test_hashed_category_has_one_nonzero_feature() -> None:
    features = encoded(Hashed(64), *(f"user {i}" for i in range(200)), None)
    assert (np.abs(features).sum(axis=1) == 1.0).all()
    assert len(np.unique(features, axis=0)) > 90  # of 128 pairs of index and sign


def test_list_has_a_feature_for_each_category() -> None:
    kind = Tags(("new", "red"))
    values: tuple[Any, ...] = (["red", "new"], "red; blue", [], None, ("blue", "green"))
    assert encoded(kind, *values).tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 1]]


def test_date_features_are_years_and_cycles() -> None:
    kind = Date(centre=2025.0, hours=True)
    monday = datetime(2025, 1, 6, 6, 0)
    features = encoded(kind, monday, "2025-01-06T06:00", "2025-01-06 06:00:00", np.datetime64("2025-01-06T06:00"))
    assert (features == features[0]).all()
    season, week = (5.25 / 365.2425), 0.25 / 7
    expected = [5 / 365.2425]
    for cycle in (season, week, 0.25):
        expected += [np.sin(2 * np.pi * cycle), np.cos(2 * np.pi * cycle)]
    np.testing.assert_allclose(features[0], [*expected, 0.0], atol=1e-12)
    assert encoded(Date(hours=False), date(2025, 1, 6), None).tolist()[1] == [0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("sparse", [False, True])
def test_many_rows_have_the_same_features_as_few(sparse: bool) -> None:
    rng = np.random.default_rng(1)
    kinds: dict[str, Any] = {"land": Category(("a", "b"), missing="indicator"), "new": Boolean(), "day": Date()}
    choices: dict[str, list[Any]] = {
        "land": ["a", "b", "c", None],
        "new": [True, False, None],
        "day": ["2025-01-01", "2025-03-01T10:00", None],
    }
    table = {name: [some[i] for i in rng.integers(len(some), size=3000)] for name, some in choices.items()}
    features = FeatureMap(context=kinds)
    many = features.transform(table, sparse=sparse)
    few = [
        features.transform({name: values[i : i + 500] for name, values in table.items()}) for i in range(0, 3000, 500)
    ]
    np.testing.assert_array_equal(many.toarray() if sparse else many, np.vstack(few))
    table["new"][1234] = "perhaps"
    with pytest.raises(InvalidInput, match="column 'new', row 1234: the value must be"):
        features.transform(table, sparse=sparse)
    table["day"][2345] = "soon"
    with pytest.raises(InvalidInput, match="column 'day', row 2345: the value must be a"):
        features.transform(table | {"new": [True] * 3000}, sparse=sparse)


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=20))
def test_arrays_and_lists_give_the_same_features(values: list[float | None]) -> None:
    features = FeatureMap(context={"c": Number(3.0, 2.0)})
    array = np.array([np.nan if value is None else value for value in values])
    np.testing.assert_array_equal(features.transform({"c": array}), features.transform({"c": values}))
    np.testing.assert_array_equal(
        features.transform({"c": array}, sparse=True).toarray(), features.transform({"c": values})
    )


@pytest.mark.parametrize("value", [["Köln"], {"a": 1}])
def test_a_list_or_an_object_is_no_category(value: Any) -> None:
    with pytest.raises(InvalidInput, match="must be a text, a number or a boolean; got "):
        encoded(Category(("Köln",)), value)
