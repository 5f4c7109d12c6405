"""Hashing: JSON objects to vectors of a chosen width, the same on every machine."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from glbandits.compilation import entry_point
from glbandits.errors import InvalidInput, check_int
from glbandits.features.hashing.feature_codes import CODED, LARGEST_FEATURE, Codes, packed, path_of
from glbandits.features.hashing.hashed_products import cross_recipe, cross_rows_recipe
from glbandits.features.hashing.named_features import CONSTANT, NamedFeature, NamedFeatures, NamingCodes, named_features
from glbandits.maths.sparse_rows import SparseRows
from glbandits.records import Floats, Ints

DEEPEST = 2
"""Objects within objects: a namespace, and one more."""
MOST_PRODUCTS = 1_000_000
"""Of all actions of a decision: some 10 ms, and 50 ms as sparse rows. Without a bound, a body of 256 kB could ask for
a billion."""
MOST_TEXTS = 20_000
"""Texts whose features are kept at hand: some 10 MB, and 100 MB if somebody tries."""
LONGEST_TEXT = 512
"""Bytes of one that is kept."""

Object: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A JSON object, or several whose features are taken together."""


@dataclass(frozen=True)
class Hashing:
    """Turns the features of a decision, the shared ones and those of each action, into a vector for each action.

    A number is a feature with its name and its value; true and false are 1 and 0; text is a feature of value 1 for
    each name and text, and null is the text "null"; an array of numbers is a feature for each place. An object within
    the object is a namespace: its name goes before the names in it. It may hold objects once more. A list of objects is
    taken as one object. Names that begin with `_` are no features, as in Vowpal Wabbit. Anything else is refused.

    The vector of an action holds a constant, the shared features, the action's features, and every product of a shared
    one with an action's: a million in all actions at most. Every one of these has 64 random bits, made of the seed and
    its name (BLAKE2b), which tell its place in the vector and its sign. Several may share a place: `width` should be a
    few times the number of features that matter.

    `rows` gives the same features as `SparseRows`, for a sparse Bandit. Its cost does not depend on the width: use it
    for widths of many thousands or millions.

    >>> hashing = Hashing(width=64)
    >>> hashing.vectors({"user": {"age": 31, "mobile": True}}, [{"topic": "sports"}, {"topic": "news"}]).shape
    (2, 64)
    >>> Hashing(width=2**24).rows({"user": {"age": 31}}, [{"topic": "sports"}]).indices
    array([ 8147536,  8150885, 10233035, 12062427])
    >>> hashing.vectors({}, [{"topic": {"a": {"b": {"c": 1}}}}])
    Traceback (most recent call last):
    glbandits.errors.InvalidInput: features of action 0: topic.a.b is an object too deep; objects are taken within
    objects 2 deep. Move its features up
    """

    width: int = 256
    seed: int = 0
    _codes: Codes = field(init=False, repr=False, compare=False)
    _constant: bytes = field(init=False, repr=False, compare=False)
    _texts: dict[bytes, bytes] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", check_int("width", self.width, at_least=1, at_most=2**31))
        object.__setattr__(self, "seed", check_int("seed", self.seed, at_least=0))
        object.__setattr__(self, "_codes", Codes(self.seed))
        object.__setattr__(self, "_constant", self._codes.code(CONSTANT) + packed(1.0))

    def vectors(self, shared: Object, actions: Sequence[Object]) -> Floats:
        """The vectors of the actions, (actions, width)."""
        return self._dense(self._coded(shared, actions))

    def rows(self, shared: Object, actions: Sequence[Object]) -> SparseRows:
        """The vectors of the actions as sparse rows, with the same sums. Costs O(n log n) for n features."""
        return self._sparse(self._coded(shared, actions))

    def named_features(self, shared: Object, action: Object) -> list[NamedFeature]:
        """The features whose sum is the vector of an action, by name, in the order in which they are added.

        A number is named by its path, "user.age"; text by path and text, "topic=sports"; an entry of an array by path
        and index, "user.tags[0]"; a product by the shared feature and the action's, "user.age * topic=sports".

        >>> for feature in Hashing(width=64).named_features({"user": {"age": 31}}, {"topic": "sports"}):
        ...     print(feature.name, feature.index, feature.value)
        constant 31 1.0
        user.age 39 31.0
        topic=sports 46 1.0
        user.age * topic=sports 31 31.0
        """
        return list(next(self.named_features_of_actions(shared, [action])))

    def named_features_of_actions(self, shared: Object, actions: Sequence[Object]) -> Iterator[NamedFeatures]:
        """As `named_features` for each of several actions, but names are made only when they are read.

        Changes nothing in this object, so any thread may call it.
        """
        codes = NamingCodes(self.seed)
        coded_shared = self._constant + _coded(codes, shared, None)
        shared_names = [CONSTANT, *codes.take_names()]
        named = [(_coded(codes, action, i), codes.take_names()) for i, action in enumerate(actions)]
        own = sum(len(names) for _, names in named)
        _count_terms(len(shared_names), len(shared_names) + own, len(actions))
        for coded, names in named:
            yield named_features(coded_shared, shared_names, coded, names, self.width)

    def vectors_of_texts(self, shared: bytes, actions: Sequence[bytes], read: Callable[[bytes], Object]) -> Floats:
        """As `vectors`, of objects that are texts. One that comes again is neither read nor hashed again.

        Args:
            shared: the text of the shared features.
            actions: the text of each action's features.
            read: makes an object of a text. It must be the same in every call.
        """
        return self._dense(self._coded_texts(shared, actions, read))

    def rows_of_texts(self, shared: bytes, actions: Sequence[bytes], read: Callable[[bytes], Object]) -> SparseRows:
        """As `rows`, of objects that are texts; `vectors_of_texts` has the arguments."""
        return self._sparse(self._coded_texts(shared, actions, read))

    def _coded(self, shared: Object, actions: Sequence[Object]) -> "_Coded":
        return self._joined(
            _coded(self._codes, shared, None), [_coded(self._codes, action, i) for i, action in enumerate(actions)]
        )

    def _coded_texts(self, shared: bytes, actions: Sequence[bytes], read: Callable[[bytes], Object]) -> "_Coded":
        known = self._texts.get
        return self._joined(
            known(shared) or self._meet(shared, None, read),
            [known(text) or self._meet(text, place, read) for place, text in enumerate(actions)],
        )

    def _meet(self, text: bytes, place: int | None, read: Callable[[bytes], Object]) -> bytes:
        """The features of a text that is not at hand."""
        features = _coded(self._codes, read(text), place)
        if len(text) <= LONGEST_TEXT:
            if len(self._texts) >= MOST_TEXTS:
                self._texts.clear()
            self._texts[text] = features
        return features

    def _joined(self, shared: bytes, actions: Sequence[bytes]) -> "_Coded":
        every = [self._constant + shared, *actions]
        coded, sizes = b"".join(every), np.fromiter(map(len, every), np.int64, len(every))
        terms = _count_terms(len(every[0]) // CODED, len(coded) // CODED, len(actions))
        return _Coded(np.frombuffer(coded, np.uint64), np.frombuffer(coded), sizes, terms)

    def _dense(self, coded: "_Coded") -> Floats:
        out = np.zeros((coded.sizes.size - 1, self.width))
        entry_point(cross_recipe).call(coded.codes, coded.values, coded.sizes, out)
        return out

    def _sparse(self, coded: "_Coded") -> SparseRows:
        indptr, indices = np.zeros(coded.sizes.size, dtype=np.int64), np.empty(coded.terms, dtype=np.int64)
        sums = np.empty(coded.terms)
        call = entry_point(cross_rows_recipe).call
        call(coded.codes, coded.values, coded.sizes, self.width, indptr, indices, sums)
        used = indptr.item(-1)
        return SparseRows(indptr, indices[:used], sums[:used])


class _Coded(NamedTuple):
    """The features of a decision, as `crosses` takes them."""

    codes: NDArray[np.uint64]
    values: Floats
    sizes: Ints
    terms: int
    """How many are added up: the shared features for each action, and all products."""


def _coded(codes: Codes, features: Object, action: int | None) -> bytes:
    """The code and the value of every feature of an action, given by its index, or of the shared features."""
    found: list[bytes] = []
    try:
        _add(codes, "", features, 0, found)
    except InvalidInput as error:
        owner = "shared features" if action is None else f"features of action {action}"
        raise InvalidInput(f"{owner}: {error}") from None
    return b"".join(found)


def _add(codes: Codes, space: str, features: Object, depth: int, found: list[bytes]) -> None:
    """Add the code and the value of every feature of an object, or of several, in a namespace."""
    known, add = codes.known(space).get, found.append
    for item in features.items() if type(features) is dict else _items(space, features):
        name, value = item
        kind = type(value)
        if kind is dict or kind is list:
            _add_nested(codes, space, name, value, depth, found)
            continue
        if kind is float and -LARGEST_FEATURE <= value <= LARGEST_FEATURE:
            code = known(name)  # numbers may all be different: the name is what comes again
            if code is not None:
                add(code + packed(value))
                continue
        try:
            add(known(item) or codes.meet(space, name, value))
        except TypeError:  # an object of another type cannot be looked up
            _add_nested(codes, space, name, value, depth, found)


def _add_nested(codes: Codes, space: str, name: object, value: Any, depth: int, found: list[bytes]) -> None:
    if str(name).startswith("_"):
        return
    path = path_of(space, name)
    if type(value) is not dict and _holds_no_object(value):
        if not all(isinstance(part, Real) for part in value):
            raise InvalidInput(f"{path} must be an array of numbers or of objects; got {repr(value)[:60]}")
        _add(codes, space, {f"{name}[{place}]": part for place, part in enumerate(value)}, depth, found)
    elif depth == DEEPEST:
        raise InvalidInput(
            f"{path} is an object too deep; objects are taken within objects {DEEPEST} deep. Move its features up"
        )
    else:
        _add(codes, path, value, depth + 1, found)


def _holds_no_object(value: object) -> bool:
    """Whether it is an array of something else."""
    return isinstance(value, list | tuple) and not any(isinstance(part, Mapping) for part in value)


def _count_terms(shared: int, found: int, actions: int) -> int:
    """The number of terms. Raises InvalidInput if they would take long, before any is made."""
    own = found - shared
    terms = shared * (own + actions)
    if terms > MOST_PRODUCTS:
        raise InvalidInput(
            f"each shared feature is taken with each of an action's, which may be {MOST_PRODUCTS:,} products in all; "
            f"got {shared:,} shared ones, and {own:,} of {actions:,} actions. Send fewer features"
        )
    return terms


def _items(space: str, features: object) -> Iterable[tuple[str, Any]]:
    """Names and values of an object, or of several."""
    if type(features) is list:
        objects = [part.items() for part in features if type(part) is dict]
        if len(objects) == len(features):  # as they come from JSON
            return chain.from_iterable(objects)
    parts = [features] if isinstance(features, Mapping) else features
    if not isinstance(parts, list | tuple) or not all(isinstance(part, Mapping) for part in parts):
        raise InvalidInput(f"{space or 'they'} must be an object or a list of objects; got {repr(features)[:60]}")
    return [item for part in parts for item in part.items()]
