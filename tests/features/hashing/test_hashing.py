import json
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits import InvalidInput, SparseRows
from glbandits.features import Hashing
from glbandits.features.hashing import feature_codes
from glbandits.features.hashing import hashing as hashing_module
from tests.features.hashing.json_objects import OBJECTS

BITS = 2**64


def code(seed: int, *parts: str) -> int:
    digest = blake2b("\0".join(parts).encode(), digest_size=8, salt=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little")


def pair(action: int, shared: int) -> int:
    mixed = (action * 0x9E3779B97F4A7C15 + shared) % BITS
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) % BITS
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) % BITS
    return mixed ^ (mixed >> 31)


def reference_vector(width: int, shared: list[tuple[int, float]], action: list[tuple[int, float]]) -> list[float]:
    """The vector by its definition, with Python's integers."""
    out = [0.0] * width
    terms = shared + [(pair(a, s), x * y) for a, x in action for s, y in shared]
    for bits, value in terms:
        out[((bits >> 32) * width) >> 32] += value if bits & 1 else -value
    return out


def test_vectors_match_the_definition() -> None:
    shared = {"user": {"age": 31, "land": "fr"}, "x": [0.5, 2]}
    action = {"topic": "sports", "deep": {"er": {"new": True}}, "gone": None, "_tag": "id"}
    seed, width = 7, 64
    s = [(code(seed, "constant"), 1.0), (code(seed, "user", "age"), 31.0), (code(seed, "user", "land", "fr"), 1.0)]
    s += [(code(seed, "", "x[0]"), 0.5), (code(seed, "", "x[1]"), 2.0)]
    a = [(code(seed, "", "topic", "sports"), 1.0), (code(seed, "deep.er", "new"), 1.0)]
    a += [(code(seed, "", "gone", "null"), 1.0)]
    for _ in range(2):  # the second time from the cache
        vectors = Hashing(width, seed).vectors(shared, [action, {}])
        np.testing.assert_allclose(
            vectors, [reference_vector(width, s, a), reference_vector(width, s, [])], rtol=0, atol=1e-12
        )


def test_hashes_are_the_same_on_every_machine() -> None:
    vector = Hashing(1000, 0).vectors({"a": 2}, [{"b": "c"}])[0]
    assert {int(slot): float(vector[slot]) for slot in np.flatnonzero(vector)} == {
        409: -2.0,
        485: 1.0,
        505: 1.0,
        578: -2.0,
    }


def test_list_of_objects_is_treated_as_one_object() -> None:
    hashing = Hashing(32)
    together = hashing.vectors({"User": {"a": 1, "b": "x"}}, [{"i": 1, "t": {"k": "v"}}])
    apart = hashing.vectors([{"User": [{"a": 1}, {"b": "x"}]}], [[{"i": 1}, {"t": [{"k": "v"}]}]])
    np.testing.assert_array_equal(together, apart)


def test_true_is_one_and_text_is_not_a_number() -> None:
    vectors = Hashing(1024).vectors({}, [{"a": True}, {"a": 1}, {"a": 1.0}, {"a": np.float32(1)}, {"a": "1"}])
    assert (vectors[:4] == vectors[0]).all()
    assert not np.array_equal(vectors[4], vectors[0])


@settings(deadline=None)
@given(OBJECTS, st.lists(OBJECTS, max_size=3), st.integers(1, 50))
def test_valid_json_gives_finite_vectors(shared: Any, actions: list[Any], width: int) -> None:
    hashing = Hashing(width)
    vectors = hashing.vectors(shared, actions)
    assert vectors.shape == (len(actions), width)
    assert np.isfinite(vectors).all()
    again = json.loads(json.dumps([shared, actions]))
    np.testing.assert_array_equal(Hashing(width).vectors(*again), vectors)


@settings(deadline=None)
@given(OBJECTS, OBJECTS)
def test_order_of_names_does_not_matter(shared: dict[str, Any], action: dict[str, Any]) -> None:
    hashing = Hashing(1 << 14)  # where sums are short: in another order, their last digit may differ
    backwards = [dict(reversed(features.items())) for features in (shared, action)]
    vectors, reverse = hashing.vectors(shared, [action]), hashing.vectors(backwards[0], [backwards[1]])
    np.testing.assert_allclose(vectors, reverse, rtol=1e-12, atol=1e-6)


WRONG: list[tuple[Any, str]] = [
    ({"a": float("nan")}, "a must be a finite number between -1e.20 and 1e.20; got nan"),
    ({"a": {"b": 10**400}}, "a.b must be a finite number"),
    ({"a": 1e21}, "a must be a finite number"),
    ({"a": {"b": {"c": {"d": 1}}}}, "a.b.c is nested too deeply; objects may be nested 2 levels deep"),
    ({"a": ["x", "y"]}, "a must be an array of numbers or of objects; got"),
    ({"a": {"b": [[1]]}}, "a.b must be an array of numbers or of objects"),
    ({"a": [{"b": 1}, 2]}, "a must be an object or a list of objects"),
    ({"a": {1: 2}}, "names of features must be text; got 1"),
    ({"a": b"x"}, "a must be text, a number, true or false, an object, or an array of numbers; got b'x'"),
    ({"a": {1, 2}}, "a must be an object or a list of objects; got {1, 2}"),
    ("text", "features must be an object or a list of objects; got 'text'"),
    (None, "features must be an object or a list of objects; got None"),
]


@pytest.mark.parametrize(("features", "message"), WRONG)
def test_invalid_values_are_reported_with_their_path(features: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"shared features: {message}"):
        Hashing().vectors(features, [])
    with pytest.raises(InvalidInput, match=f"features of action 1: {message}"):
        Hashing().vectors({}, [{}, features])


def test_too_many_products_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a request of 256 kB with two arrays of 60,000 numbers would keep a server busy for 10 seconds."""
    many = {"x": [1] * 25_000}
    with pytest.raises(
        InvalidInput,
        match="at most 1,000,000 products .*; got 25,001 shared features, and 25,000 features of 1 actions",
    ):
        Hashing().vectors(many, [many])
    with pytest.raises(InvalidInput, match="got 25,001 shared features"):
        Hashing().vectors(many, [{}] * 50)
    monkeypatch.setattr(hashing_module, "MAX_PRODUCTS", 10_000)
    assert Hashing().vectors({"x": [1] * 99}, [{"x": [1] * 49}] * 2).shape == (2, 256)
    with pytest.raises(InvalidInput, match="got 100 shared features"):
        Hashing().vectors({"x": [1] * 99}, [{"x": [1] * 49}, {"x": [1] * 50}])


def test_vectors_do_not_depend_on_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_codes, "MAX_CACHED", 10)
    hashing = Hashing(64)
    many = [{f"space {i % 3}": {"a": f"text {i}", "b": i, "c": i / 7, "x" * 65: 1}} for i in range(50)]
    vectors = hashing.vectors({"x": 1}, many)
    np.testing.assert_array_equal(np.vstack([Hashing(64).vectors({"x": 1}, [action]) for action in many]), vectors)
    np.testing.assert_array_equal(hashing.vectors({"x": 1}, many), vectors)


def test_inner_products_are_unbiased() -> None:
    """Two actions without a common feature: their inner product is 0 on average over seeds.

    With 2000 seeds, its mean is normal with the standard error below; a right program is beyond 5 of them once in 1.7
    million runs.
    """
    products = []
    for seed in range(2000):
        first, second = Hashing(4, seed).vectors({}, [{f"a{i}": 1 for i in range(5)}, {f"b{i}": 1 for i in range(5)}])
        constant = Hashing(4, seed).vectors({}, [{}])[0]
        products.append((first - constant) @ (second - constant))
    assert abs(np.mean(products)) < 5 * np.std(products) / np.sqrt(len(products))
    assert np.std(products) > 1


@settings(deadline=None)
@given(OBJECTS, st.lists(OBJECTS, max_size=3))
def test_texts_give_the_vectors_of_their_objects(shared: Any, actions: list[Any]) -> None:
    texts = [json.dumps(features).encode() for features in (shared, *actions)]
    hashing = Hashing(32)
    expected = Hashing(32).vectors(shared, actions).tobytes()
    for _ in range(2):  # the second time from the cache
        assert hashing.vectors_of_texts(texts[0], texts[1:], json.loads).tobytes() == expected


class CountingParser:
    """Parses JSON and records the texts."""

    def __init__(self) -> None:
        self.parsed: list[bytes] = []

    def __call__(self, text: bytes) -> Any:
        self.parsed.append(text)
        return json.loads(text)


def test_recurring_texts_are_parsed_once() -> None:
    parse, hashing = CountingParser(), Hashing(32)
    hashing.vectors_of_texts(b'{"a": 1}', [b'{"b": 2}', b'{"b": 2}', b'{"b": 3}'], parse)
    hashing.vectors_of_texts(b'{"a": 1}', [b'{"b": 3}', b'{"b": 4}'], parse)
    assert parse.parsed == [b'{"a": 1}', b'{"b": 2}', b'{"b": 3}', b'{"b": 4}']


def test_cache_of_texts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing_module, "MAX_CACHED_TEXTS", 10)
    parse, hashing = CountingParser(), Hashing(32)
    texts = [json.dumps({"a": i}).encode() for i in range(100)]
    for text in texts * 2:  # all were evicted before they recur
        vectors = hashing.vectors_of_texts(b"{}", [text], parse)
        np.testing.assert_array_equal(vectors, Hashing(32).vectors({}, [json.loads(text)]))
    assert [parse.parsed.count(text) for text in texts] == [2] * 100


def dense(rows: SparseRows, width: int) -> Any:
    out = np.zeros((rows.row_count, width))
    for number in range(rows.row_count):
        row = rows.row(number)
        assert (np.diff(row.indices) > 0).all()
        out[number, row.indices] = row.values
    return out


@settings(deadline=None)
@given(OBJECTS, st.lists(OBJECTS, max_size=3), st.integers(1, 50))  # narrow ones have many collisions
def test_sparse_rows_equal_vectors(shared: Any, actions: list[Any], width: int) -> None:
    hashing, texts = Hashing(width), [json.dumps(features).encode() for features in (shared, *actions)]
    expected = hashing.vectors(shared, actions).tobytes()
    assert dense(hashing.rows(shared, actions), width).tobytes() == expected
    assert dense(hashing.rows_of_texts(texts[0], texts[1:], json.loads), width).tobytes() == expected


def test_sparse_rows_are_equal_without_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    actions: list[Any]
    shared, actions = {"x": [0.1, 0.2, 0.3], "u": "v"}, [{"a": 0.7, "b": [1e9, 1e-9]}, {}, {"c": {"d": None}}]
    cases: list[tuple[int, Any, list[Any]]] = [(7, shared, actions), (2**24, {"x": [0.1] * 40}, [{"y": [0.3] * 40}])]
    compiled = [[part.tobytes() for part in Hashing(width).rows(*case)] for width, *case in cases]
    monkeypatch.setattr(hashing_module, "entry_point", lambda recipe: SimpleNamespace(call=recipe().function))
    with np.errstate(over="ignore"):
        assert [[part.tobytes() for part in Hashing(width).rows(*case)] for width, *case in cases] == compiled


@pytest.mark.parametrize("width", [1, 2, 1000, 2**11, 2**11 + 1, 2**22 + 5])
def test_long_sparse_rows_equal_vectors(width: int) -> None:
    """More than 1000 terms are sorted digit by digit."""
    actions: list[Any] = [{"y": [0.3 / (i + 1) for i in range(80)]}, {"z": 1}]
    shared, hashing = {"x": [0.1 * i for i in range(50)]}, Hashing(width)
    assert dense(hashing.rows(shared, actions), width).tobytes() == hashing.vectors(shared, actions).tobytes()


def test_sparse_rows_work_for_very_large_widths() -> None:
    rows = Hashing(2**31).rows({"user": 1}, [{"a": 1}, {}])
    assert rows.indptr.tolist() == [0, 4, 6]
    assert rows.indices.max() < 2**31
    assert rows.indices.max() > 2**24
