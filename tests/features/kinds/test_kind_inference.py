from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import pytest

from glbandits import InvalidInput
from glbandits.features import Category, Date, FeatureMap, Number, Tags, Text
from glbandits.features.kinds.column_kind import ColumnKind
from glbandits.features.kinds.hashed_text import Hashed
from glbandits.features.kinds.numeric import Boolean, Vector


def learned(values: Any, **settings: Any) -> ColumnKind:
    return FeatureMap.learn({"c": values}, context=("c",), **settings).kinds["c"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 3.0], Number(2.0, float(np.std([1, 2, 3])), "impute")),
        (np.array([1.0, np.nan, 3.0]), Number(2.0, 1.0, "indicator")),
        ([5, 5], Number(5.0, 1.0, "impute")),
        ([True, False, None], Boolean("indicator")),
        (["fr", "de", None, "fr"], Category(("de", "fr"), missing="indicator")),
        (["a", "NA", "a"], Category(("NA", "a"))),  # NA may be Namibia
        ([date(2025, 1, 1), date(2025, 1, 1)], Date(2025.0, hours=False, missing="impute", utc_offset="refused")),
        (["2025-01-01", "2025-01-01 10:00"], Date(2025.0, hours=True, missing="impute", utc_offset="refused")),
        ([["new"], ["red", "new"], None], Tags(("new", "red"))),
        ([[1.0, 2.0], [3, 4]], Vector(2)),
        (["yes", "No", "yes", "yes", "NA", "-"], Boolean("indicator", mean=0.75)),
        (["True", "False"], Boolean("impute")),
        (["no", "no"], Category(("no",))),  # may be Norway
        (["may 1", "may be 2025", "1/2"], Category(("1/2", "may 1", "may be 2025"))),
        ([f"city {i % 60}" for i in range(600)], Hashed(128)),
    ],
)
def test_kind_is_inferred_from_values(values: Sequence[Any], kind: ColumnKind) -> None:
    assert learned(values) == kind


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["12", "30"], r"numbers written as text \('12' and '30'\). Use kinds={'c': 'number'} to parse"),
        (["7", "1,234.5", "new"], "contains numbers such as '7', but also 'new', which is no number"),
        (["1.234.567", "12.5"], "'1.234.567', in which a comma or a point may be decimal or separate thousands"),
        (["7.567", "1.234.567"], r"written as text \('7.567' and '1.234.567'\)"),
        (["03.01.2026 10:00", "4.1.2026"], r"dates written as day.month.year .*Use kinds={'c': 'date'} to parse"),
        (["02 Jan 2025", "January 3, 2025", "NA"], "but '02 Jan 2025' cannot be read"),
        (["Fri, 31 Jan 2025 10:00:00 GMT", "2-1-2025", "2025/01/31"], "cannot be read"),
        (["2026-01-03T01:00+01:00", "2026-01-03T01:00"], "must have a UTC offset.*; got '2026-01-03T01:00'"),
        ([{"a": 1}], r"contains objects \({'a': 1}\). Name a field of the objects, such as 'c.a'"),
        ([f"text {i}" for i in range(4744)], "4,744 distinct texts .* kinds={'c': 'text'} .* kinds={'c': 'skip'}"),
    ],
)
def test_ambiguous_values_are_reported(values: list[Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        learned(values)


def test_problems_of_all_columns_are_reported_together() -> None:
    with pytest.raises(InvalidInput) as error:
        FeatureMap.learn({"a": ["1", "2"], "b": [1, 2], "c": ["1%", "2%"]}, context=("a", "b", "c"))
    assert [line[:10] for line in str(error.value).splitlines()] == ["column 'a'", "column 'c'"]


def test_numbers_as_text_are_parsed_if_declared() -> None:
    table = {"p": ["12%", "1,200.0%", "", "NA"], "q": ["$1,234.50", "3", "-2", None]}
    features = FeatureMap.learn(table, context=("p", "q"), kinds={"p": "number", "q": "number"}, crosses=())
    assert features.kinds["p"] == Number(6.06, 5.94, "indicator", from_text=True, percent=True)
    np.testing.assert_allclose(features.transform(table)[:, :2], [[-1, 0], [1, 0], [0, 1], [0, 1]], atol=1e-12)
    with pytest.raises(InvalidInput, match="column 'c', row 2: each value must be a"):
        learned(["1", None, "a"], kinds={"c": "number"})


@pytest.mark.parametrize("kind", ["number", "raw", "decimal_comma"])
def test_percentages_and_other_numbers_are_not_mixed(kind: str) -> None:
    for values in (["24,7%", None, "5,5", "3 %"], ["24,7", "5,5%", "3"], [0.2, "20%"]):
        with pytest.raises(InvalidInput, match="each value must have a percent sign"):
            learned(values, kinds={"c": kind})
    percentages = learned(["24,7%", "0", "NA"], kinds={"c": kind})
    assert isinstance(percentages, Number)
    assert percentages.percent


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["12", "NA"], "number"),
        (["12%", "-"], "raw"),
        (["yes", "no", "NA"], "boolean"),
        (["2025-01-31", "NA"], "date"),
        (["a", ""], "category"),
    ],
)
def test_missing_texts_are_treated_as_missing_values(values: list[str], kind: str) -> None:
    treatments = [
        getattr(learned(values, kinds={"c": kind}, missing=way), "missing", None) for way in ("indicator", "impute")
    ]
    assert treatments == ["indicator", "impute"]
    with pytest.raises(InvalidInput, match="column 'c' has 1 missing values"):
        learned(values, kinds={"c": kind}, missing="error")


def test_later_numbers_are_parsed_if_their_comma_is_clear() -> None:
    features = FeatureMap.learn({"c": ["4 %", "6 %"]}, context=("c",), kinds={"c": "number"})
    texts = ["5,5 %", "5.5%", "1.234,5%", "1,234.5 %", "7%"]
    amounts = np.array([0.055, 0.055, 12.345, 12.345, 0.07])
    np.testing.assert_allclose(features.transform({"c": texts}).ravel(), (amounts - 0.05) / 0.01)


@pytest.mark.parametrize("count", [3, 60])
def test_number_is_the_code_with_leading_zeros(count: int) -> None:
    codes = [f"{code:05}" for code in range(4100, 4100 + count)]
    features = FeatureMap.learn({"c": codes}, context=("c",), kinds={"c": "category"})
    assert isinstance(features.kinds["c"], Category if count == 3 else Hashed)
    for number in (4101, 4101.0, np.int64(4101), "4101"):
        np.testing.assert_array_equal(features.transform([{"c": number}]), features.transform([{"c": "04101"}]))
    assert FeatureMap.from_document(features.document()) == features


@pytest.mark.parametrize("count", [3, 60])
def test_code_is_the_number_that_has_lost_its_zeros(count: int) -> None:
    features = FeatureMap.learn({"c": list(range(4100, 4100 + count))}, context=("c",), kinds={"c": "category"})
    np.testing.assert_array_equal(features.transform([{"c": "04101"}]), features.transform([{"c": 4101}]))


def test_texts_with_and_without_zeros_differ_if_codes_have_both() -> None:
    features = FeatureMap.learn({"c": ["007", "12", "0012"]}, context=("c",), kinds={"c": "category"})
    other = features.transform([{"c": "unknown"}])
    np.testing.assert_array_equal(features.transform([{"c": "7"}]), other)
    assert (features.transform([{"c": 7}]) != other).any()


@pytest.mark.parametrize("name", ["zip", "PLZ", "userId", "user_id", "postal code", "home.zipcode", "customerID"])
def test_codes_that_are_used_as_quantities_are_reported(name: str) -> None:
    table = {name: [10115, 4109, 20095]}
    with pytest.warns(UserWarning, match=f"--kind {name}=category"):
        FeatureMap.learn(table, context=(name,))
    FeatureMap.learn(table, context=(name,), kinds={name: "number"})


@pytest.mark.parametrize(
    ("name", "values"), [("paid", [1, 2, 3]), ("user_id", [0.5, 2.0, 3.0]), ("id", [0, 1, 1]), ("zipped", [7, 8, 9])]
)
def test_quantities_are_not_reported_as_codes(name: str, values: list[float]) -> None:
    FeatureMap.learn({name: values}, context=(name,))


@pytest.mark.parametrize(
    ("values", "kind", "numbers"),
    [
        (["14097,85", "5,78", "1,234", "12"], "number", [14097.85, 5.78, 1.234, 12.0]),
        (["1.234,5", "3"], "number", [1234.5, 3.0]),
        (["1.234.567", "7.567"], "number", [1234567.0, 7567.0]),
        (["1.234", "5,78"], "number", [1234.0, 5.78]),
        (["7.567", "1.234"], "decimal_comma", [7567.0, 1234.0]),
        (["7.567", "1.234"], "number", [7.567, 1.234]),
        (["0,123", "1,234"], "number", [0.123, 1.234]),
        (["1,234", "7"], "decimal_comma", [1.234, 7.0]),
        (["1,234", "7"], "thousands_comma", [1234.0, 7.0]),
        (["1,234.5", "1,000"], "number", [1234.5, 1000.0]),
    ],
)
def test_commas_in_numbers_are_parsed(values: list[str], kind: str, numbers: list[float]) -> None:
    learned_kind = learned(values, kinds={"c": kind})
    assert isinstance(learned_kind, Number)
    assert learned_kind.mean == pytest.approx(np.mean(numbers))
    features = FeatureMap.learn({"c": values}, context=("c",), kinds={"c": kind}, crosses=())
    assert FeatureMap.from_document(features.document()) == features
    scaled = features.transform({"c": values})[:, 0] * learned_kind.scale + learned_kind.mean
    np.testing.assert_allclose(scaled, numbers)


@pytest.mark.parametrize("values", [["1,234", "2,345"], ["5,78", "12.5"]])
def test_unclear_commas_are_reported_for_declared_numbers(values: list[str]) -> None:
    with pytest.raises(InvalidInput, match="declared as decimal_comma or thousands_comma"):
        learned(values, kinds={"c": "number"})


def test_same_instant_has_the_same_features_in_any_time_zone() -> None:
    values = ["2026-01-03T01:09:35+01:00", "2026-01-03T00:09:35Z", "03.01.2026 01:09:35 +0100"]
    features = FeatureMap.learn({"c": values}, context=("c",), kinds={"c": "date"}, crosses=()).transform({"c": values})
    np.testing.assert_array_equal(features[1:], features[:-1])


def test_kinds_are_declared_by_name_or_object() -> None:
    assert learned(["12", "30"], kinds={"c": "category"}) == Category(("12", "30"))
    assert learned([1, 2], kinds={"c": "category"}) == Category(("1", "2"))
    assert learned(np.array([1.0, 2.0]), kinds={"c": "category"}) == Category(("1", "2"))
    assert learned(["a b", "c"], kinds={"c": "text"}) == Text()
    assert learned([0, 1], kinds={"c": "boolean"}) == Boolean("impute")
    assert learned(["a;b", "b"], kinds={"c": "list"}) == Tags(("a", "b"))
    assert learned([3, 5], kinds={"c": "raw"}) == Number(0.0, 1.0, "impute")
    assert learned([3, 5], kinds={"c": Number(1.0, 2.0)}) == Number(1.0, 2.0)
    assert list(FeatureMap.learn({"a": [1, 2], "b": [1, 2]}, context=("a", "b"), kinds={"b": "skip"}).kinds) == ["a"]
    with pytest.raises(ValueError, match="unknown kind of a column 'categry'; did you mean 'category'.* skip"):
        learned([1], kinds={"c": "categry"})


@pytest.mark.parametrize("values", [[1, None, 3], ["a", None], [True, None], [date(2025, 1, 1), None]])
def test_missing_values_are_marked_imputed_or_refused(values: list[Any]) -> None:
    marked, imputed = learned(values), learned(values, missing="impute")
    assert marked.width == imputed.width + 1
    with pytest.raises(InvalidInput, match="column 'c' has 1 missing values"):
        learned(values, missing="error")
