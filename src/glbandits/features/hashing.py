"""Hashing: JSON objects to vectors of a chosen width, the same on every machine."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from glbandits.errors import InvalidInput, whole
from glbandits.features.codes import LARGEST_FEATURE, Codes, path_of
from glbandits.features.crosses import cross_entry
from glbandits.records import Floats

DEEPEST = 2
"""Objects within objects: a namespace, and one more."""
MOST_PRODUCTS = 1_000_000
"""Of all actions of a decision: some 10 ms. Without a bound, a body of 256 kB could ask for a billion."""

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

    >>> hashing = Hashing(width=64)
    >>> hashing.vectors({"user": {"age": 31, "mobile": True}}, [{"topic": "sports"}, {"topic": "news"}]).shape
    (2, 64)
    >>> hashing.vectors({}, [{"topic": {"a": {"b": {"c": 1}}}}])
    Traceback (most recent call last):
    glbandits.errors.InvalidInput: features of action 0: topic.a.b is an object too deep; objects are taken within
    objects 2 deep. Move its features up
    """

    width: int = 256
    seed: int = 0
    _codes: Codes = field(init=False, repr=False, compare=False)
    _constant: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", whole("width", self.width, at_least=1, at_most=2**31))
        object.__setattr__(self, "seed", whole("seed", self.seed, at_least=0))
        object.__setattr__(self, "_codes", Codes(self.seed))
        object.__setattr__(self, "_constant", self._codes.code("constant"))

    def vectors(self, shared: Object, actions: Sequence[Object]) -> Floats:
        """The vectors of the actions, (actions, width)."""
        found = _Found(self._codes, self._constant)
        found.add("shared features", shared)
        ends = [len(found.codes)]
        for place, action in enumerate(actions):
            found.add(place, action)
            ends.append(len(found.codes))
        _check_products(ends)
        out = np.zeros((len(actions), self.width))
        codes, values = np.frombuffer(found.codes, np.uint64), np.frombuffer(found.values)
        cross_entry()(codes, values, np.array(ends, np.int64), out)
        return out


class _Found:
    """The features of a decision, one after the other. The first is a constant."""

    def __init__(self, known: Codes, constant: int) -> None:
        self._known = known
        self.codes, self.values = array("Q", [constant]), array("d", [1.0])

    def add(self, whose: str | int, features: Object) -> None:
        """All features of an object."""
        try:
            self._add("", features, 0)
        except InvalidInput as error:
            owner = whose if isinstance(whose, str) else f"features of action {whose}"
            raise InvalidInput(f"{owner}: {error}") from None

    def _add(self, space: str, features: Object, depth: int) -> None:
        known = self._known.known(space)
        add_code, add_value = self.codes.append, self.values.append
        items: Iterable[tuple[str, Any]] = features.items() if type(features) is dict else _items(space, features)
        for item in items:
            name, value = item
            if type(value) is float and -LARGEST_FEATURE <= value <= LARGEST_FEATURE:
                coded = known.get(name)  # numbers may all be different: the name is what comes again
                if coded is not None:
                    add_code(coded[0])
                    add_value(value)
                    continue
            try:
                coded = known.get(item)
            except TypeError:  # an object or an array cannot be looked up
                self._add_nested(space, name, value, depth)
                continue
            code, amount = coded or self._known.meet(space, name, value)
            add_code(code)
            add_value(amount)

    def _add_nested(self, space: str, name: object, value: Any, depth: int) -> None:
        path = path_of(space, name)
        if str(name).startswith("_"):
            return
        if isinstance(value, list | tuple) and not any(isinstance(part, Mapping) for part in value):
            if not all(isinstance(part, Real) for part in value):
                raise InvalidInput(f"{path} must be an array of numbers or of objects; got {repr(value)[:60]}")
            self._add(space, {f"{name}[{place}]": part for place, part in enumerate(value)}, depth)
        elif depth == DEEPEST:
            raise InvalidInput(
                f"{path} is an object too deep; objects are taken within objects {DEEPEST} deep. Move its features up"
            )
        else:
            self._add(path, value, depth + 1)


def _check_products(ends: Sequence[int]) -> None:
    """Refuse features whose products would take long, before any is made."""
    shared, own, actions = ends[0], ends[-1] - ends[0], len(ends) - 1
    if shared * (own + actions) > MOST_PRODUCTS:
        raise InvalidInput(
            f"each shared feature is taken with each of an action's, which may be {MOST_PRODUCTS:,} products in all; "
            f"got {shared:,} shared ones, and {own:,} of {actions:,} actions. Send fewer features"
        )


def _items(space: str, features: object) -> Iterable[tuple[str, Any]]:
    """Names and values of an object, or of several."""
    if type(features) is list and len(features) == 1 and type(features[0]) is dict:  # as most come from Personalizer
        return features[0].items()
    parts = [features] if isinstance(features, Mapping) else features
    if not isinstance(parts, list | tuple) or not all(isinstance(part, Mapping) for part in parts):
        raise InvalidInput(f"{space or 'they'} must be an object or a list of objects; got {repr(features)[:60]}")
    return [item for part in parts for item in part.items()]
