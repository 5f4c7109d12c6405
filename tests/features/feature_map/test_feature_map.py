import json
import re
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from glbandits import InvalidInput
from glbandits.features import Category, FeatureMap, Number, RandomFourier, Tags, Text
from glbandits.features.kinds.hashed_text import Hashed
from glbandits.features.table_columns import named_table

TABLE: dict[str, list[Any]] = {
    "offer": ["a", "b", "a", "c"],
    "price": [1.0, 2.0, 3.0, 6.0],
    "age": [30, None, 50, 40],
    "country": ["fr", "de", "fr", None],
    "mobile": [True, False, True, True],
    "day": ["2025-01-31", "2025-02-01", "2025-02-02", "2025-02-03"],
    "tags": [["new"], [], ["new", "red"], ["red"]],
}
ROWS = [dict(zip(TABLE, values, strict=True)) for values in zip(*TABLE.values(), strict=True)]
CONTEXT = ("age", "country", "mobile", "day", "tags")


def test_features_include_all_products_of_context_and_arm() -> None:
    features = FeatureMap(
        arm={"price": Number(2.0, 2.0, "impute")}, context={"country": Category(("de", "fr"), missing="indicator")}
    )
    z, x = 0.5, np.array([0.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(features.transform([{"price": 3.0, "country": "fr"}]), [[z, *x, *(z * x)]])
    assert features.names[-1] == "country=missing * price"
    assert features.dim == len(features.names) == 9


def test_crosses_selects_the_products() -> None:
    kinds: dict[str, Any] = {"context": {"age": "raw", "size": "raw"}, "arm": {"price": "raw", "weight": "raw"}}
    row = [{"age": 2.0, "size": 3.0, "price": 5.0, "weight": 7.0}]
    some = FeatureMap(**kinds, crosses=[("age", "weight"), ("price", "weight"), ("price", "size")])
    assert some.transform(row).tolist() == [[5, 7, 2, 3, 14, 35, 15]]
    assert some.names[-3:] == ("age * weight", "price * weight", "size * price")
    assert FeatureMap(**kinds, crosses=()).transform(row).tolist() == [[5, 7, 2, 3]]
    with pytest.raises(InvalidInput, match="crosses contains 'agee', which is no column of the map. .*: age, size"):
        FeatureMap(**kinds, crosses=[("agee", "price")])


def test_per_arm_block_has_a_constant_and_the_context() -> None:
    features = FeatureMap.learn(TABLE, context=("price",), per_arm_block="offer", kinds={"price": "raw"})
    rows = [{"offer": "b", "price": 5.0}, {"offer": "a", "price": 5.0}]
    assert features.transform(rows).tolist() == [[0, 1, 0, 0, 5, 0], [1, 0, 0, 5, 0, 0]]
    with pytest.raises(InvalidInput, match="column 'offer', row 0: the value"):
        features.transform([{"offer": "new", "price": 5.0}])


def test_own_columns_are_in_no_product() -> None:
    features = FeatureMap(arm={"price": "raw"}, context={"age": "raw"}, own={"affinity": "raw"})
    assert features.transform([{"price": 2, "age": 3, "affinity": 7}]).tolist() == [[2, 3, 6, 7]]


def test_all_types_of_tables_give_the_same_features() -> None:
    features = FeatureMap.learn(TABLE, context=CONTEXT, arm=("price",))
    expected = features.transform(ROWS)
    pandas = pd.DataFrame(ROWS)
    tables = [
        TABLE,
        tuple(ROWS),
        pandas,
        pl.DataFrame(TABLE),
        pl.DataFrame(TABLE).with_columns(pl.col("day").str.to_date()),
    ]
    for table in tables:
        np.testing.assert_array_equal(features.transform(table), expected)
        assert FeatureMap.learn(table, context=CONTEXT, arm=("price",)) == features
        np.testing.assert_array_equal(features.transform(table, sparse=True).toarray(), expected)


def test_arrow_tables_are_accepted() -> None:
    class ArrowTable:
        def to_pydict(self) -> dict[str, list[Any]]:
            return TABLE

    features = FeatureMap.learn(ArrowTable(), context=CONTEXT)
    np.testing.assert_array_equal(features.transform(ArrowTable()), features.transform(ROWS))


def test_arrays_with_column_names_are_accepted() -> None:
    array = np.array([[1.0, 2.0], [3.0, 0.0]])
    features = FeatureMap.learn(named_table(array, ["x", "y"]), context=("x", "y"))
    expected = [[-1.0, 1.0], [1.0, -1.0]]
    assert features.transform(named_table(sparse.csr_array(array), ["x", "y"])).tolist() == expected
    with pytest.raises(InvalidInput, match="array must have 2 dimensions and 1 columns"):
        named_table(array, ["x"])


def test_single_value_in_a_dict_is_repeated_in_every_row() -> None:
    features = FeatureMap(arm={"price": "raw"}, context={"age": "raw"})
    np.testing.assert_array_equal(
        features.transform({"price": [1, 2], "age": 3}),
        features.transform([{"price": 1, "age": 3}, {"price": 2, "age": 3}]),
    )


def test_list_in_a_dict_of_columns_has_a_value_for_each_row() -> None:
    features = FeatureMap(arm={"price": "raw"}, context={"tags": Tags(("new", "red"))}, crosses=())
    tags = ["new", "red"]
    assert features.transform({"price": [1, 2], "tags": tags}).tolist() == [[1, 1, 0, 0], [2, 0, 1, 0]]
    assert features.transform({"price": [1, 2], "tags": [tags] * 2}).tolist() == [[1, 1, 1, 0], [2, 1, 1, 0]]
    with pytest.raises(InvalidInput, match="must have the same length"):
        features.transform({"price": [1, 2, 3], "tags": tags})


def test_fields_of_nested_objects_are_named_by_their_path() -> None:
    rows = [{"user": {"age": 3}}, {"user": {"age": 5}}, {"user": {}}]
    features = FeatureMap.learn(rows, context=("user.age",))
    assert features.transform(rows).tolist() == [[-1, 0], [1, 0], [0, 1]]


def test_absent_column_is_reported_with_a_similar_name() -> None:
    features = FeatureMap.learn(TABLE, context=("age", "mobile"), arm=("price",))
    with pytest.raises(InvalidInput, match="row 0 has the unknown field 'pricee'"):
        features.transform([{"pricee": 3.0, "age": 3, "mobile": True}])
    with pytest.raises(InvalidInput, match="the table has no column 'prize'"):
        FeatureMap.learn(TABLE, arm=("prize",))
    row = {"price": 3.0, "mobile": True}  # age was missing in the table too, so that a row may lack it
    np.testing.assert_array_equal(features.transform([row]), features.transform([{**row, "age": None}]))


def test_misspelt_fields_are_reported_in_every_row() -> None:
    features = FeatureMap.learn(TABLE, context=("age", "country"), arm=("price",))
    row = {"age": 3, "country": "fr", "price": 1.0}
    for wrong, message in (
        ({"age": 3, "county": "fr", "price": 1.0}, "row 1 has the unknown field 'county'; did you mean 'country'"),
        ({"age": 3, "country": "fr", "prize": 1.0}, "row 1 has the unknown field 'prize'; did you mean 'price'"),
        ({"age": 3, "country": "fr"}, "row 1 has no column 'price'. Send 'price', with null"),
    ):
        with pytest.raises(InvalidInput, match=message):
            features.transform([row, wrong])
    lacks_country = {"price": 1.0, "age": 3, "id": 3}  # the country was missing in the table too
    assert len(features.transform([row, lacks_country])) == 2


@pytest.mark.parametrize("field", ["Age", "AGE", "age_"])
def test_absent_field_with_a_similar_name_is_an_error(field: str) -> None:
    features = FeatureMap(context={"age": Number(mean=40, scale=15), "country": "hashed"})
    message = f"row 0 has the unknown field '{field}'; did you mean 'age'? Send 'age', with null"
    with pytest.raises(InvalidInput, match=re.escape(message)):
        features.transform([{field: 50, "country": "fr"}])
    assert features.transform([{"zip": 50, "country": "fr"}])[0, 1] == 1.0  # missing
    assert features.transform([{field: 50, "age": 40, "country": "fr"}])[0, 1] == 0.0


def test_misspelt_field_of_a_nested_object_is_an_error() -> None:
    features = FeatureMap(context={"user.age": "number"})
    with pytest.raises(InvalidInput, match="has the unknown field 'user.Age'"):
        features.transform([{"user": {"Age": 50}}])


def test_row_without_any_field_of_a_group_is_an_error() -> None:
    features = FeatureMap(arm={"price": "number"}, context={"age": "number", "country": "hashed"})
    for row, message in (
        ({"price": 3}, "row 0 has no field of the context. Send at least one of age, country, with null if"),
        ({"age": 3}, "row 0 has no field of the arm. Send at least one of price, with null if"),
    ):
        with pytest.raises(InvalidInput, match=message):
            features.transform([row])
    assert features.transform([{"price": None, "age": None}]).shape == (1, features.dim)


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, dict])
def test_table_must_have_all_columns(table: Any) -> None:
    features = FeatureMap(context={"age": Number(mean=40, scale=15), "country": "hashed"})
    with pytest.raises(InvalidInput, match="the table has no column 'age'"):
        features.transform(table({"country": ["fr"]}))
    with pytest.raises(InvalidInput, match="the table has no column 'age', but 'Age'"):
        features.transform(table({"Age": [50], "country": ["fr"]}))


def test_contexts_may_differ_between_rows() -> None:
    features = FeatureMap(arm={"price": "raw"}, context={"age": "raw"})
    assert features.transform([{"price": 1, "age": 3}, {"price": 1, "age": 4}]).tolist() == [[1, 3, 3], [1, 4, 4]]


def test_map_can_be_saved_as_json() -> None:
    features = FeatureMap.learn(
        TABLE, context=CONTEXT, per_arm_block="offer", expansions=[RandomFourier(("age",), features=3, scale=2.0)]
    )
    again = FeatureMap.from_document(json.loads(json.dumps(features.document())))
    assert again == features
    assert again.names == features.names
    assert str(again) == str(features)
    np.testing.assert_array_equal(again.transform(ROWS), features.transform(ROWS))
    assert features != FeatureMap.learn(TABLE, context=CONTEXT[::-1], per_arm_block="offer")


GOOD = FeatureMap.learn(TABLE, context=("age",), per_arm_block="offer").document()


@pytest.mark.parametrize(
    "document",
    [
        None,
        {**GOOD, "version": 2},
        {name: value for name, value in GOOD.items() if name != "own"},
        {**GOOD, "arm": 3},
        {**GOOD, "context": {"age": {"kind": "number"}}},
        {**GOOD, "context": {"age": {"kind": "pickle"}}},
        {**GOOD, "context": {"age": {"kind": "number", "mean": "x", "scale": 1, "missing": "error", "from_text": 0}}},
        {**GOOD, "context": {"age": {"kind": "vector", "size": 10**9}}},
        {**GOOD, "arm": {"offer": {"kind": "category", "values": [1], "other": False, "missing": "error"}}},
        {**GOOD, "per_arm_block": ["offer"]},
        {**GOOD, "per_arm_block": "age"},
        {**GOOD, "crosses": [["a"]]},
        {**GOOD, "crosses": 3},
        {**GOOD, "expansions": [{"columns": ["age"], "features": 10**9}]},
        {**GOOD, "expansions": [{"columns": ["nobody"]}]},
        {**GOOD, "missing_shares": [1]},
        {**GOOD, "arm": {}, "context": {}, "per_arm_block": None},
    ],
)
def test_invalid_documents_are_refused(document: Any) -> None:
    with pytest.raises(InvalidInput, match="the feature map (has format version|is not valid|is damaged)"):
        FeatureMap.from_document(document)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"context": ["age"]}, "context must be a dict with the kind of each column, such as {'age': 'number'}"),
        (
            {"context": {"x": "list"}},
            r"column 'x' is a list without settings. Use Tags\(\('a', 'b'\)\) with its values",
        ),
        ({"context": {"age": "numbr"}}, "unknown kind of a column 'numbr'; did you mean 'number'"),
        ({"context": {"age": "raw"}, "per_arm_block": "offer"}, "per_arm_block must be an arm column"),
        (
            {
                "arm": {"arm": Category(tuple("abcdefghijklmnop"), other=False)},
                "context": {"q": Text(2**24), "product": Hashed(2**24), "day": Hashed(128)},
                "per_arm_block": "arm",
            },
            "got 536,872,976. Change its columns",
        ),
    ],
)
def test_invalid_declarations_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FeatureMap(**settings)


@pytest.mark.parametrize(
    ("learned", "refused", "message"),
    [
        ("2025-06-01T10:00", "2026-01-01T10:00:00+02:00", "must have no UTC offset, as the others of the column; got"),
        ("2025-06-01", "2026-01-01T10:00Z", "must have no UTC offset, as the others of the column; got"),
        ("2025-06-01T10:00+02:00", "2026-01-01T10:00", "must have a UTC offset, as the others of the column; got"),
        (datetime(2025, 6, 1, tzinfo=UTC), "2026-01-01", "must have a UTC offset, as the others of the column; got"),
    ],
)
def test_times_with_and_without_an_offset_are_not_mixed(learned: Any, refused: str, message: str) -> None:
    features = FeatureMap.learn({"when": [learned, learned]}, context=("when",))
    for same in (features, FeatureMap.from_document(features.document())):
        same.transform([{"when": learned}])
        with pytest.raises(InvalidInput, match=f"column 'when', row 0: the value {message}"):
            same.transform([{"when": refused}])
    declared = FeatureMap(context={"when": "date"})
    declared.transform([{"when": learned}, {"when": refused}])


def test_random_fourier_features_approximate_the_gaussian_kernel() -> None:
    features = FeatureMap(
        context={"x": "raw", "y": "raw"}, expansions=[RandomFourier(("x", "y"), features=20_000, scale=2.0)], crosses=()
    )
    fourier = features.transform([{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 2.0}])[:, 2:]
    # The error of the kernel is at most 1 / sqrt(20,000) = 0.007 in standard deviations; the draw is fixed.
    assert fourier[0] @ fourier[1] == pytest.approx(np.exp(-5.0 / (2 * 2.0**2)), abs=0.02)
    with pytest.raises(InvalidInput, match="the columns of RandomFourier"):
        FeatureMap(context={"x": "raw"}, arm={"z": "raw"}, expansions=[RandomFourier(("x", "z"))])
