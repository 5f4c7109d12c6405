"""Hashing: from JSON objects to feature vectors of a fixed width."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput, check_int, value_text
from glbandits.compilation.entry_point import entry_point
from glbandits.features.hashing.feature_codes import FEATURE_BYTES, LARGEST_FEATURE, FeatureCodes, packed, path_of
from glbandits.features.hashing.hashed_products import cross_recipe, cross_rows_recipe
from glbandits.features.hashing.named_features import (
    CONSTANT,
    NamedFeature,
    NamedFeatures,
    RecordingCodes,
    named_features,
)
from glbandits.maths.sparse_rows import SparseRows

LARGEST_WIDTH = 2**31
"""The largest width. Loops of the service have a smaller limit, see `service.domain.loop_config`."""
MAX_DEPTH = 2
"""The largest number of levels of nested objects below the object itself."""
MAX_PRODUCTS = 1_000_000
"""The largest number of products in a decision: about 10 ms, and 50 ms as sparse rows.

Without a bound, a request body of 256 kB could ask for a billion."""
MAX_CACHED_TEXTS = 20_000
"""The largest number of JSON texts with cached features: about 10 MB, and 100 MB in the worst case."""
LONGEST_CACHED_TEXT = 512
"""The largest size of a cached JSON text, in bytes."""

Object: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A JSON object, or a list of objects whose features are combined."""


@dataclass(frozen=True)
class Hashing:
    """Computes a feature vector for each action of a decision, by feature hashing.

    Values of a JSON object become features as follows:

    - A number is a feature with this value. True and false are 1 and 0.
    - A text is a feature of value 1, whose name contains the text as it is. Null is the text "null".
    - An array of numbers is one feature for each index.
    - A nested object is a namespace: its name precedes the names in it. There may be two levels of nesting.
    - A list of objects is treated as one object.
    - Names that begin with `_` are ignored, as in Vowpal Wabbit.
    - Any other value raises InvalidInput.

    The vector of an action is the sum of a constant, the shared features, the features of the action, and all products
    of a shared feature with a feature of the action. A decision may have at most a million products. Each of these
    terms has a 64-bit hash of the seed and its name (BLAKE2b), which gives its index in the vector and its sign. Terms
    may collide at an index, so `width` should be a few times the number of features that matter.

    `rows` returns the same features as `SparseRows`, for a sparse Bandit. Its cost does not depend on the width. Use
    `rows` for widths of many thousands or millions.

    >>> hashing = Hashing(width=64)
    >>> hashing.vectors({"user": {"age": 31, "mobile": True}}, [{"topic": "sports"}, {"topic": "news"}]).shape
    (2, 64)
    >>> Hashing(width=2**24).rows({"user": {"age": 31}}, [{"topic": "sports"}]).indices
    array([ 8147536,  8150885, 10233035, 12062427])
    >>> hashing.vectors({}, [{"topic": {"a": {"b": {"c": 1}}}}])
    Traceback (most recent call last):
    glbandits.common.errors.InvalidInput: features of action 0: topic.a.b is nested too deeply; objects may be nested
    2 levels deep. Move its features up
    """

    width: int = 256
    seed: int = 0
    _codes: FeatureCodes = field(init=False, repr=False, compare=False)
    _constant: bytes = field(init=False, repr=False, compare=False)
    _text_cache: dict[bytes, bytes] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", check_int("width", self.width, at_least=1, at_most=LARGEST_WIDTH))
        object.__setattr__(self, "seed", check_int("seed", self.seed, at_least=0))
        object.__setattr__(self, "_codes", FeatureCodes(self.seed))
        object.__setattr__(self, "_constant", self._codes.code(CONSTANT) + packed(1.0))

    def vectors(self, shared: Object, actions: Sequence[Object]) -> Floats:
        """The vectors of the actions, (actions, width)."""
        return self._dense(self._encode(shared, actions))

    def rows(self, shared: Object, actions: Sequence[Object]) -> SparseRows:
        """The vectors of the actions as sparse rows, with the same sums.

        O(n log n) for n features.
        """
        return self._sparse(self._encode(shared, actions))

    def named_features(self, shared: Object, action: Object) -> list[NamedFeature]:
        """The named terms whose sum is the vector of an action, in the order of the sum.

        A number is named by its path, "user.age". A text is named by path and text, "topic=sports". An entry of an
        array is named by path and index, "user.tags[0]". A product is named by the shared feature and the feature of
        the action, "user.age * topic=sports".

        >>> for feature in Hashing(width=64).named_features({"user": {"age": 31}}, {"topic": "sports"}):
        ...     print(feature.name, feature.index, feature.value)
        constant 31 1.0
        user.age 39 31.0
        topic=sports 46 1.0
        user.age * topic=sports 31 31.0
        """
        return list(next(self.named_features_of_actions(shared, [action])))

    def named_features_of_actions(self, shared: Object, actions: Sequence[Object]) -> Iterator[NamedFeatures]:
        """As `named_features` for several actions, but builds names only when they are read.

        Thread-safe: the method does not change this object.
        """
        codes = RecordingCodes(self.seed)
        encoded_shared = self._constant + _encoded(codes, shared, None)
        shared_names = [CONSTANT, *codes.take_names()]
        named = [(_encoded(codes, action, i), codes.take_names()) for i, action in enumerate(actions)]
        own = sum(len(names) for _, names in named)
        _count_terms(len(shared_names), len(shared_names) + own, len(actions))
        for encoded, names in named:
            yield named_features(encoded_shared, shared_names, encoded, names, self.width)

    def vectors_of_texts(self, shared: bytes, actions: Sequence[bytes], parse: Callable[[bytes], Object]) -> Floats:
        """As `vectors`, for JSON texts instead of objects.

        The features of recurring texts are cached.

        Args:
            shared: the text of the shared features.
            actions: the text of the features of each action.
            parse: converts a text to an object. Pass the same function in every call, because results are cached.
        """
        return self._dense(self._encode_texts(shared, actions, parse))

    def rows_of_texts(self, shared: bytes, actions: Sequence[bytes], parse: Callable[[bytes], Object]) -> SparseRows:
        """As `rows`, for JSON texts instead of objects, with the arguments of `vectors_of_texts`."""
        return self._sparse(self._encode_texts(shared, actions, parse))

    def _encode(self, shared: Object, actions: Sequence[Object]) -> "_EncodedDecision":
        return self._joined(
            _encoded(self._codes, shared, None), [_encoded(self._codes, action, i) for i, action in enumerate(actions)]
        )

    def _encode_texts(
        self, shared: bytes, actions: Sequence[bytes], parse: Callable[[bytes], Object]
    ) -> "_EncodedDecision":
        cached = self._text_cache.get
        return self._joined(
            cached(shared) or self._encode_text(shared, None, parse),
            [cached(text) or self._encode_text(text, i, parse) for i, text in enumerate(actions)],
        )

    def _encode_text(self, text: bytes, action: int | None, parse: Callable[[bytes], Object]) -> bytes:
        """Encode the features of a text that is not in the cache, and cache them."""
        features = _encoded(self._codes, parse(text), action)
        if len(text) <= LONGEST_CACHED_TEXT:
            if len(self._text_cache) >= MAX_CACHED_TEXTS:
                self._text_cache.clear()
            self._text_cache[text] = features
        return features

    def _joined(self, shared: bytes, actions: Sequence[bytes]) -> "_EncodedDecision":
        parts = [self._constant + shared, *actions]
        encoded, sizes = b"".join(parts), np.fromiter(map(len, parts), np.int64, len(parts))
        terms = _count_terms(len(parts[0]) // FEATURE_BYTES, len(encoded) // FEATURE_BYTES, len(actions))
        return _EncodedDecision(np.frombuffer(encoded, np.uint64), np.frombuffer(encoded), sizes, terms)

    def _dense(self, encoded: "_EncodedDecision") -> Floats:
        out = np.zeros((encoded.sizes.size - 1, self.width))
        entry_point(cross_recipe).call(encoded.codes, encoded.values, encoded.sizes, out)
        return out

    def _sparse(self, encoded: "_EncodedDecision") -> SparseRows:
        indptr, indices = np.zeros(encoded.sizes.size, dtype=np.int64), np.empty(encoded.terms, dtype=np.int64)
        sums = np.empty(encoded.terms)
        call = entry_point(cross_rows_recipe).call
        call(encoded.codes, encoded.values, encoded.sizes, self.width, indptr, indices, sums)
        used = indptr.item(-1)
        return SparseRows(indptr, indices[:used], sums[:used])


class _EncodedDecision(NamedTuple):
    """The encoded features of a decision: the arguments of the functions in `hashed_products`."""

    codes: NDArray[np.uint64]
    values: Floats
    sizes: Ints
    terms: int
    """The number of terms in all sums: the shared features for each action, and all products."""


def _encoded(codes: FeatureCodes, features: Object, action: int | None) -> bytes:
    """Encode the features of an action, or the shared features if `action` is None."""
    encoded: list[bytes] = []
    try:
        _append(codes, "", features, 0, encoded)
    except InvalidInput as error:
        owner = "shared features" if action is None else f"features of action {action}"
        raise InvalidInput(f"{owner}: {error}") from None
    return b"".join(encoded)


def _append(codes: FeatureCodes, space: str, features: Object, depth: int, encoded: list[bytes]) -> None:
    """Append every encoded feature of an object, or of a list of objects, in a namespace."""
    cached, append = codes.cached(space).get, encoded.append
    for item in features.items() if type(features) is dict else _items(space, features):
        name, value = item
        kind = type(value)
        if kind is dict or kind is list:
            _append_nested(codes, space, name, value, depth, encoded)
            continue
        if kind is float and -LARGEST_FEATURE <= value <= LARGEST_FEATURE:
            code = cached(name)  # the cache has the code of the name, not the features of single floats
            if code is not None:
                append(code + packed(value))
                continue
        try:
            append(cached(item) or codes.encode(space, name, value))
        except TypeError:  # the value is not hashable: a nested object of another type
            _append_nested(codes, space, name, value, depth, encoded)


def _append_nested(codes: FeatureCodes, space: str, name: object, value: Any, depth: int, encoded: list[bytes]) -> None:
    if str(name).startswith("_"):
        return
    path = path_of(space, name)
    if type(value) is not dict and _holds_no_object(value):
        if not all(isinstance(part, Real) for part in value):
            raise InvalidInput(f"{path} must be an array of numbers or of objects; got {value_text(value)}")
        _append(codes, space, {f"{name}[{index}]": part for index, part in enumerate(value)}, depth, encoded)
    elif depth == MAX_DEPTH:
        raise InvalidInput(
            f"{path} is nested too deeply; objects may be nested {MAX_DEPTH} levels deep. Move its features up"
        )
    else:
        _append(codes, path, value, depth + 1, encoded)


def _holds_no_object(value: object) -> bool:
    """Whether a value is an array without objects."""
    return isinstance(value, list | tuple) and not any(isinstance(part, Mapping) for part in value)


def _count_terms(shared: int, features: int, actions: int) -> int:
    """The number of terms of a decision.

    Raises InvalidInput above MAX_PRODUCTS, before any term is computed.

    Args:
        shared: the number of shared features.
        features: the number of shared features and of features of all actions together.
        actions: the number of actions.
    """
    own = features - shared
    terms = shared * (own + actions)
    if terms > MAX_PRODUCTS:
        raise InvalidInput(
            f"a decision may have at most {MAX_PRODUCTS:,} products of shared features and features of actions; got "
            f"{shared:,} shared features, and {own:,} features of {actions:,} actions. Send fewer features"
        )
    return terms


def _items(space: str, features: object) -> Iterable[tuple[str, Any]]:
    """The names and values of an object, or of a list of objects."""
    if type(features) is list:
        objects = [part.items() for part in features if type(part) is dict]
        if len(objects) == len(features):  # the common case, from JSON
            return chain.from_iterable(objects)
    parts = [features] if isinstance(features, Mapping) else features
    if not isinstance(parts, list | tuple) or not all(isinstance(part, Mapping) for part in parts):
        raise InvalidInput(f"{space or 'features'} must be an object or a list of objects; got {value_text(features)}")
    return [item for part in parts for item in part.items()]
