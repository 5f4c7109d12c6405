from datetime import date, datetime
from typing import Any

import numpy as np
import pytest

from glbandits.features import Date, FeatureMap, Number
from glbandits.features.kinds.column_kind import ColumnKind


@pytest.mark.parametrize(
    ("values", "kind", "example"),
    [
        (["Basel", "Zug", None, "Zug"], "category", "Zug"),
        ([20, 30, 900, None], "number", 30),
        (np.array([0.125, 0.25, 7.0]), "number", 0.25),
        (["$20", "$1,000", "$30", "NA"], "thousands_comma", 30),
        (["5%", "12%", "90%"], "number", 0.12),
        (["yes", "no", "no", None], "boolean", False),
        (["2023-03-01T08:30", "2023-05-02T09:15", "2023-06-01T20:00"], "date", "2023-05-02T09:15"),
        (["2023-03-01", "2023-05-02", "2023-06-01", "NA"], "date", "2023-05-02"),
        (["2023-03-01T08:30+02:00", "2023-05-02T09:15Z"], "date", "2023-05-02T09:15+00:00"),
        (["2023-03-01T00:00Z", "2023-05-02T00:00Z"], "date", "2023-05-02T00:00+00:00"),
        ([date(2023, 3, 1), date(2023, 5, 2), date(2023, 6, 1)], "date", "2023-05-02"),
        ([["red"], ["blue", "red"]], "list", ["blue"]),
    ],
)
def test_example_is_typical_of_the_column(values: Any, kind: str, example: Any) -> None:
    features = FeatureMap.learn({"x": values}, context=("x",), kinds={"x": kind})
    assert features.example("x") == example
    assert FeatureMap.from_document(features.document()).example("x") == example
    features.transform([{"x": features.example("x")}])


def test_example_of_a_hashed_column_is_no_value_of_the_table() -> None:
    features = FeatureMap.learn({"user": ["ann@example.org"] * 5}, context=("user",), kinds={"user": "hashed"})
    assert "ann" not in str(features.document())
    assert features.example("user") == "some text"


@pytest.mark.parametrize("kind", [Number(), Date()])
def test_a_declared_kind_that_does_not_fit_has_no_typical_value(kind: ColumnKind) -> None:
    features = FeatureMap.learn({"x": ["a", "b"], "y": [1, 2]}, context=("x", "y"), kinds={"x": kind})
    assert "x" not in features.examples
    assert features.example("y") == 2


def test_example_of_a_date_without_data_is_near_its_centre() -> None:
    assert Date(centre=2023.5, hours=False).example == "2023-07-02"
    assert Date(centre=2023.0).example == "2023-01-01T12:00"
    assert Date(centre=2023.0, hours=False, utc_offset="required").example == "2023-01-01T12:00+00:00"
    for centre in (-5.0, 0.5, 1.0, 9999.99, 12345.0, 2024.999):
        datetime.fromisoformat(Date(centre=centre).example)


def test_maps_without_examples_are_read() -> None:
    document = FeatureMap.learn({"age": [20, 30, 900]}, context=("age",)).document()
    del document["examples"]
    assert FeatureMap.from_document(document).example("age") == 317.0


def test_examples_do_not_make_maps_different() -> None:
    first, second = (FeatureMap.learn({"x": values}, context=("x",)) for values in (["a", "b", "b"], ["a", "b", "a"]))
    assert first == second
