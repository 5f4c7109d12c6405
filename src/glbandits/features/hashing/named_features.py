"""Names of hashed features, as the request used them: to show what a vector is the sum of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glbandits.features.hashing.feature_codes import NOTHING_KNOWN, Codes, Known, path_of
from glbandits.features.hashing.hashed_products import index_of, of_pair, signs_of
from glbandits.records import Floats, Ints

CONSTANT = "constant"
LONGEST_NAME = 100
"""Characters of a name that are shown. A product has two such names."""


@dataclass(frozen=True, slots=True)
class NamedFeature:
    """A feature, or the product of two, and what it adds to the vector of an action."""

    name: str
    """A path such as "user.age" or "user.tags[0]", for text "topic=sports", or a product "user.age * topic=sports".

    A path or text of more than 100 characters is cut and ends in "…".
    """
    index: int
    """Where it is added."""
    value: float
    """What is added: the value of the feature, with the sign of its hash."""


@dataclass(frozen=True, eq=False)
class NamedFeatures:
    """The features of one action, in the order in which they are added to its vector.

    Iterating makes a `NamedFeature` of each. There may be a million, so use the arrays if only a few names are needed.
    """

    indices: Ints
    """The index in the vector where each feature is added, (n,)."""
    signs: Floats
    """The sign of its hash, 1 or -1, (n,)."""
    values: Floats
    """The value in the request, or the product of two, (n,). The sign times the value is added to the vector."""
    shared_names: Sequence[str]
    """The names of the shared features, the constant first."""
    own_names: Sequence[str]
    """The names of the action's own features."""

    def name(self, position: int) -> str:
        """The name of the feature at a position in the arrays."""
        own, shared = divmod(position, len(self.shared_names))
        if own == 0:
            return self.shared_names[shared]
        own_name = self.own_names[own - 1]
        return f"{self.shared_names[shared]} * {own_name}" if shared else own_name  # times the constant

    def __iter__(self) -> Iterator[NamedFeature]:
        added = (self.signs * self.values).tolist()
        for position, (index, value) in enumerate(zip(self.indices.tolist(), added, strict=True)):
            yield NamedFeature(self.name(position), index, value)


class NamingCodes(Codes):
    """Codes that record the name of each feature, in order. Nothing is known to them, so they meet every feature."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._names: list[str] = []

    def take_names(self) -> list[str]:
        """The names since the last call."""
        names, self._names = self._names, []
        return names

    def known(self, space: str) -> Known:  # noqa: ARG002  (the same of every namespace)
        """Nothing."""
        return NOTHING_KNOWN

    def meet(self, space: str, name: object, value: object) -> bytes:
        """As the base class does, and record the name if it is a feature."""
        coded = super().meet(space, name, value)
        if coded:
            path = path_of(space, name)
            text = "null" if value is None else value
            self._names.append(_shortened(f"{path}={text}" if isinstance(text, str) else path))
        return coded


def named_features(
    shared: bytes, shared_names: Sequence[str], own: bytes, own_names: Sequence[str], width: int
) -> NamedFeatures:
    """The features that `crosses` adds up for an action with its own features. The constant is a shared feature."""
    (shared_codes, shared_values), (own_codes, own_values) = _columns(shared), _columns(own)
    codes = np.concatenate([shared_codes, of_pair(own_codes[:, np.newaxis], shared_codes).ravel()])
    values = np.concatenate([shared_values, np.outer(own_values, shared_values).ravel()])
    indices = index_of(codes, width).astype(np.int64)
    return NamedFeatures(indices, signs_of(codes), values, shared_names, own_names)


def _columns(coded: bytes) -> tuple[NDArray[np.uint64], Floats]:
    """The codes and the values."""
    return np.frombuffer(coded, np.uint64)[::2], np.frombuffer(coded)[1::2]


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
