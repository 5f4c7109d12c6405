from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits.features import Hashing
from glbandits.features.hashing.named_features import NamedFeature
from tests.features.hashing.json_objects import OBJECTS


def names(shared: Any, action: Any) -> list[str]:
    return [feature.name for feature in Hashing().named_features(shared, action)]


@settings(deadline=None)
@given(OBJECTS, OBJECTS, st.integers(1, 50), st.integers(0, 3))
def test_named_features_add_up_to_the_vector(shared: Any, action: Any, width: int, seed: int) -> None:
    hashing, vector = Hashing(width, seed), np.zeros(width)
    for feature in hashing.named_features(shared, action):
        vector[feature.index] += feature.value
    assert vector.tobytes() == hashing.vectors(shared, [action])[0].tobytes()


@settings(deadline=None)
@given(OBJECTS, st.lists(OBJECTS, max_size=3))
def test_named_features_of_several_actions(shared: Any, actions: list[Any]) -> None:
    hashing = Hashing(32)
    together = [list(features) for features in hashing.named_features_of_actions(shared, actions)]
    assert together == [hashing.named_features(shared, action) for action in actions]


def test_names_are_paths_in_the_request() -> None:
    shared = [{"user": {"age": 31, "tags": [0.5, 2], "_id": 7}}, {"device": {"os": {"name": "linux"}}, "new": True}]
    assert names(shared, {}) == [
        "constant",
        "user.age",
        "user.tags[0]",
        "user.tags[1]",
        "device.os.name=linux",
        "new",
    ]
    assert names({}, {"topic": "sports", "gone": None, "price": 2.5}) == [
        "constant",
        "topic=sports",
        "gone=null",
        "price",
    ]


def test_value_has_the_sign_of_the_hash() -> None:
    features = Hashing(1000, 0).named_features({"a": 2}, {"b": "c"})
    assert features[1] == NamedFeature("a", 409, -2.0)
