"""FeatureCodes: a 64-bit hash for the name of every feature, with a cache."""

import sys
from collections.abc import Mapping
from hashlib import blake2b
from numbers import Real
from struct import Struct
from typing import Any, TypeAlias

from glbandits.common.errors import InvalidInput, value_text

LARGEST_FEATURE = 1e20
"""The largest absolute value of a feature. Sums of products of two such features are still valid policy input."""
MAX_CACHED = 200_000
"""The largest number of cached features and namespaces: about 50 MB, and 100 MB in the worst case."""
LONGEST_CACHED = 64
"""The most characters of namespace, name and text of a cached feature. Long ones seldom recur, and fill memory."""

CodeCache: TypeAlias = Mapping[Any, bytes]
"""By (name, value): the encoded feature. By name: the code alone, for numbers whose values are not cached."""

EMPTY_CACHE: CodeCache = {}

packed = Struct("d").pack
"""Convert a float to 8 bytes."""
FEATURE_BYTES = 16
"""The bytes of an encoded feature: its code as uint64, then its value as float64."""


class FeatureCodes:
    """Encodes features for one seed.

    A code depends only on the seed, the namespace, the name and the text.
    """

    def __init__(self, seed: int) -> None:
        self._salt = seed.to_bytes(8, "little")
        self._spaces: dict[str, dict[Any, bytes]] = {}
        self._count = 0

    def cached(self, space: str) -> CodeCache:
        """The cached features of a namespace."""
        return self._spaces.get(space, EMPTY_CACHE)

    def encode(self, space: str, name: object, value: object) -> bytes:
        """The code and the value of a feature.

        Empty if the name starts with "_", which marks it as no feature. Raises InvalidInput if the value is not text, a
        finite number, a boolean or None.
        """
        if not isinstance(name, str):
            raise InvalidInput(f"names of features must be text; got {value_text(name)}")
        if name.startswith("_"):
            return b""
        if value is None or isinstance(value, str):
            text = "null" if value is None else value
            return self._store(space, name, text, (name, value), self.code(space, name, text) + packed(1.0))
        number = packed(_number(path_of(space, name), value))
        code = self.cached(space).get(name) or self._store(space, name, "", name, self.code(space, name))
        if isinstance(value, int):  # integers and booleans recur; floats may all be different
            return self._store(space, name, "", (name, value), code + number)
        return code + number

    def code(self, *parts: str) -> bytes:
        """The 64-bit hash of these texts."""
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        digest = blake2b(text, digest_size=8, salt=self._salt).digest()
        return digest if sys.byteorder == "little" else digest[::-1]

    def _store(self, space: str, name: str, text: str, key: object, encoded: bytes) -> bytes:
        if len(space) + len(name) + len(text) > LONGEST_CACHED:
            return encoded
        if self._count >= MAX_CACHED:
            self._spaces, self._count = {}, 0
        if space not in self._spaces:
            self._count += 1
        self._spaces.setdefault(space, {})[key] = encoded
        self._count += 1
        return encoded


def path_of(space: str, name: object) -> str:
    """The name of a feature in errors and explanations."""
    return f"{space}.{name}" if space else str(name)


def _number(path: str, value: Any) -> float:
    if not isinstance(value, Real):
        raise InvalidInput(
            f"{path} must be text, a number, true or false, an object, or an array of numbers; got {value_text(value)}"
        )
    largest: Any = LARGEST_FEATURE
    if not -largest <= value <= largest:  # before the conversion: an int may be too large for a float
        raise InvalidInput(
            f"{path} must be a finite number between -{LARGEST_FEATURE:g} and {LARGEST_FEATURE:g}; "
            f"got {value_text(value)}"
        )
    return float(value)
