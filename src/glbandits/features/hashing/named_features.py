"""Names of hashed features, to explain which features of a request a vector is the sum of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glbandits.common.arrays import Floats, Ints
from glbandits.features.hashing.feature_codes import EMPTY_CACHE, CodeCache, FeatureCodes, path_of
from glbandits.features.hashing.hashed_products import index_of, product_code, signs_of

CONSTANT = "constant"
LONGEST_NAME = 100
"""The most characters of a name. A product has two such names."""


@dataclass(frozen=True, slots=True)
class NamedFeature:
    """A term in the vector of an action: a feature or a product of two features."""

    name: str
    """A path such as "user.age" or "user.tags[0]", for text "topic=sports", for a product "user.age * topic=sports".

    A name of a feature with more than 100 characters is cut and ends in "…".
    """
    index: int
    """The index in the vector at which the term is added."""
    value: float
    """The value of the term, with the sign of its hash."""


@dataclass(frozen=True, eq=False)
class NamedFeatures:
    """The terms in the vector of one action, in the order in which they are added.

    Iteration yields a `NamedFeature` for each term. There may be a million, so use the arrays if you need few names.
    """

    indices: Ints
    """The index in the vector of each term, (n,)."""
    signs: Floats
    """The sign of the hash of each term, 1 or -1, (n,)."""
    values: Floats
    """The value of each feature or product, (n,). The sign times the value is added to the vector."""
    shared_names: Sequence[str]
    """The names of the shared features, the constant first."""
    own_names: Sequence[str]
    """The names of the features of the action."""

    def name(self, position: int) -> str:
        """The name of the term at a position in the arrays."""
        own, shared = divmod(position, len(self.shared_names))
        if own == 0:
            return self.shared_names[shared]
        own_name = self.own_names[own - 1]
        return f"{self.shared_names[shared]} * {own_name}" if shared else own_name  # times the constant

    def __iter__(self) -> Iterator[NamedFeature]:
        added = (self.signs * self.values).tolist()
        for position, (index, value) in enumerate(zip(self.indices.tolist(), added, strict=True)):
            yield NamedFeature(self.name(position), index, value)


class RecordingCodes(FeatureCodes):
    """Feature codes that record the name of each encoded feature, in order.

    Without a cache, so that none is missed.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._names: list[str] = []

    def take_names(self) -> list[str]:
        """Return the names recorded since the last call, and forget them."""
        names, self._names = self._names, []
        return names

    def cached(self, space: str) -> CodeCache:  # noqa: ARG002
        """An empty cache."""
        return EMPTY_CACHE

    def encode(self, space: str, name: object, value: object) -> bytes:
        """Encode a feature and record its name. Names that start with "_" are not recorded."""
        encoded = super().encode(space, name, value)
        if encoded:
            path = path_of(space, name)
            text = "null" if value is None else value
            self._names.append(_shortened(f"{path}={text}" if isinstance(text, str) else path))
        return encoded


def named_features(
    shared: bytes, shared_names: Sequence[str], own: bytes, own_names: Sequence[str], width: int
) -> NamedFeatures:
    """The terms that `hashed_products` sums for one action. The constant is a shared feature."""
    (shared_codes, shared_values), (own_codes, own_values) = _codes_and_values(shared), _codes_and_values(own)
    codes = np.concatenate([shared_codes, product_code(own_codes[:, np.newaxis], shared_codes).ravel()])
    values = np.concatenate([shared_values, np.outer(own_values, shared_values).ravel()])
    indices = index_of(codes, width).astype(np.int64)
    return NamedFeatures(indices, signs_of(codes), values, shared_names, own_names)


def _codes_and_values(encoded: bytes) -> tuple[NDArray[np.uint64], Floats]:
    return np.frombuffer(encoded, np.uint64)[::2], np.frombuffer(encoded)[1::2]


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
