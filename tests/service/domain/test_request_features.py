"""The features of a request equal the features of its logged text."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits import InvalidInput
from glbandits.common.arrays import Floats
from glbandits.features import Category, FeatureMap, Hashing
from glbandits.service.domain.events import DecisionRequest
from glbandits.service.domain.request_features import (
    DENSE,
    JSON,
    RequestHashing,
    RequestMap,
    arms_of,
    check_arm_fields,
    encode_json_request,
)
from glbandits.service.http.personalizer.schemas import RankRequest

ODD = [
    '{"whole": 9007199254740993, "more": 18446744073709551616, "less": -9223372036854775809}',
    '{"largest": 100000000000000000000, "float": 1e20, "point": 9007199254740993.0}',
    '{"zero": -0.0, "none": -0, "tiny": 5e-324, "gone": 1e-400, "tenth": 0.1e0, "large": 1E+2}',
    '{"digits": 0.1000000000000000055511151231257827021181583404541015625, "third": 0.333333333333333333333}',
    '{"twice": 1, "other": "x", "twice": 2.5}',
    '{"twice": {"a": 1}, "twice": {"b": "c"}}',
    '{"caf\\u00e9": "\\ud83d\\ude42", "café": "🙂", "nul\\u0000l": "\\u0000", "quote\\"": "\\\\", "\\/": "\\/"}',
    '{"": "", " ": " ", "e\\u0301": "é", "_hidden": 1e300, "true": true, "text": "true", "null": null}',
    '{"array": [1, 2.50, true, 1e2], "objects": [{"a": 1}, {"a": 2, "b": {"c": null}}], "empty": {}, "none": []}',
    "[]",
]


def vectors(request: bytes, encoding: str, actions: int, hashing: Hashing) -> Floats:
    names = tuple(str(index) for index in range(actions))
    decision = DecisionRequest(event_id="e", request=request, encoding=encoding, actions=names)
    arms = arms_of(decision, RequestHashing(hashing))
    assert isinstance(arms, np.ndarray)
    return arms


def bits_of(text: str) -> bytes:
    """The vectors of the features in the request itself, without logging."""
    return Hashing(64).vectors(msgspec.json.decode(text), [msgspec.json.decode(text), {}]).tobytes()


@pytest.mark.parametrize("text", ODD)
def test_odd_features_are_the_same_after_logging(text: str) -> None:
    sent = msgspec.json.decode(text)
    objects = sent if isinstance(sent, list) else [sent]
    encoded, hashing = encode_json_request(objects, [objects, []]), Hashing(64)
    for _ in range(2):  # the second time from the cache
        assert vectors(encoded, JSON, 2, hashing).tobytes() == bits_of(text)


VALUES = st.integers(-(10**20), 10**20) | st.floats(-1e20, 1e20) | st.booleans() | st.none()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)  # JSON has no halves of pairs
FLAT = st.dictionaries(TEXTS, VALUES | TEXTS, max_size=4)
OBJECTS = st.lists(st.dictionaries(TEXTS, VALUES | TEXTS | FLAT, max_size=4), max_size=2)


@settings(deadline=None)
@given(OBJECTS, st.lists(OBJECTS, min_size=1, max_size=3))
def test_any_features_are_the_same_after_logging(shared: Any, actions: list[Any]) -> None:
    sent = msgspec.json.decode(json.dumps([shared, actions]))
    encoded = encode_json_request(*sent)
    assert vectors(encoded, JSON, len(actions), Hashing(64)).tobytes() == Hashing(64).vectors(*sent).tobytes()


def test_context_without_a_known_field_is_an_error() -> None:
    encoder = RequestMap(FeatureMap(context={"age": "number"}))
    with pytest.raises(InvalidInput, match="row 0 has the unknown field 'Age'"):
        encoder.arms({"Age": 3}, [{}], ["a"])
    with pytest.raises(InvalidInput, match="row 0 has no field of the context"):
        encoder.arms({}, [{}], ["a"])


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity"])
def test_nan_and_infinity_are_not_decoded(number: str) -> None:
    body = f'{{"actions": [{{"id": "a", "features": [{{"x": {number}}}]}}]}}'
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(body, type=RankRequest)


def test_too_large_numbers_are_refused() -> None:
    encoded = encode_json_request([], [[{"a": 10**400}]])
    with pytest.raises(InvalidInput, match="features of action 0: a must be a finite"):
        vectors(encoded, JSON, 1, Hashing(64))


def test_dense_arms_equal_the_logged_numbers() -> None:
    arms = np.array([[1.0, -0.0, 5e-324], [1e100, 2.0, 3.0]])
    np.testing.assert_array_equal(vectors(arms.tobytes(), DENSE, 2, Hashing(64)), arms)


@pytest.mark.parametrize(
    ("shared", "action", "message"),
    [
        (5, {}, "the shared features must be an object or a list of objects; got 5"),
        ([{"age": 1}, "x"], {}, r"the shared features must be an object or a list of objects; got \[{'age': 1}, 'x'\]"),
        ({"age": 1}, ["x"], r"the features of action 0 must be an object or a list of objects; got \['x'\]"),
    ],
)
def test_fields_that_are_no_objects_are_an_error(shared: Any, action: Any, message: str) -> None:
    encoder = RequestMap(FeatureMap(context={"age": "number"}))
    with pytest.raises(InvalidInput, match=message):
        encoder.arms(shared, [action], ["a"])


def test_an_index_names_an_arm_only_if_no_field_is_misspelt() -> None:
    arm = {"offer": Category(("0", "1"), other=False)}
    encoder = RequestMap(FeatureMap(arm=arm, context={"age": "number"}, per_arm_block="offer"))
    check_arm_fields([[{}], [{"age": 3}], [{"offer": "1"}]], encoder)
    with pytest.raises(InvalidInput, match="row 1 has the unknown field 'ofer'"):
        check_arm_fields([[{}], [{"ofer": "0"}]], encoder)
    with pytest.raises(InvalidInput, match="row 2 has no"):
        check_arm_fields([[{}], [{}], [{}]], encoder)
