"""Codes: 64 bits for every feature, made of its name, and kept at hand for those that come again."""

import sys
from collections.abc import Mapping
from hashlib import blake2b
from numbers import Real
from struct import Struct
from typing import Any, TypeAlias

from glbandits.errors import InvalidInput

LARGEST_FEATURE = 1e20
"""Products of two such, and sums of them, are still numbers that a policy takes."""
MOST_KNOWN = 200_000
"""Features and namespaces that are kept at hand: some 50 MB, and 100 MB if somebody tries."""
LONGEST_KNOWN = 64
"""Characters of the namespace, name and text of one that is kept: long ones seldom come again, and fill memory."""

Known: TypeAlias = Mapping[Any, bytes]
"""What (name, value) became, and for a name alone, the code of its numbers."""

NOTHING_KNOWN: Known = {}

packed = Struct("d").pack
"""A value as 8 bytes."""
CODED = 16
"""Bytes of a feature: those of its code, as uint64, and those of its value."""


class Codes:
    """The codes of one seed. A code depends on the seed, the namespace, the name and the text, and on nothing else."""

    def __init__(self, seed: int) -> None:
        self._salt = seed.to_bytes(8, "little")
        self._spaces: dict[str, dict[Any, bytes]] = {}
        self._count = 0

    def known(self, space: str) -> Known:
        """The features of a namespace that are at hand."""
        return self._spaces.get(space, NOTHING_KNOWN)

    def meet(self, space: str, name: object, value: object) -> bytes:
        """The code and the value of a feature that is not at hand; nothing if it is no feature."""
        if not isinstance(name, str):
            raise InvalidInput(f"names of features must be text; got {name!r}")
        if name.startswith("_"):
            return b""
        if value is None or isinstance(value, str):
            text = "null" if value is None else value
            return self._keep(space, name, text, (name, value), self.code(space, name, text) + packed(1.0))
        number = packed(_number(path_of(space, name), value))
        code = self.known(space).get(name) or self._keep(space, name, "", name, self.code(space, name))
        if isinstance(value, int):  # whole numbers and booleans come again; other numbers may all be different
            return self._keep(space, name, "", (name, value), code + number)
        return code + number

    def code(self, *parts: str) -> bytes:
        """64 bits for these texts."""
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        digest = blake2b(text, digest_size=8, salt=self._salt).digest()
        return digest if sys.byteorder == "little" else digest[::-1]

    def _keep(self, space: str, name: str, text: str, key: object, coded: bytes) -> bytes:
        if len(space) + len(name) + len(text) > LONGEST_KNOWN:
            return coded
        if self._count >= MOST_KNOWN:
            self._spaces, self._count = {}, 0
        if space not in self._spaces:
            self._count += 1
        self._spaces.setdefault(space, {})[key] = coded
        self._count += 1
        return coded


def path_of(space: str, name: object) -> str:
    """How errors call a feature."""
    return f"{space}.{name}" if space else str(name)


def _number(path: str, value: Any) -> float:
    """A number as a plain float."""
    if not isinstance(value, Real):
        raise InvalidInput(
            f"{path} must be text, a number, true or false, an object, or an array of numbers; got {repr(value)[:60]}"
        )
    largest: Any = LARGEST_FEATURE
    if not -largest <= value <= largest:  # before it is a float: a whole number may be too large for one
        raise InvalidInput(f"{path} must be a finite number of at most {LARGEST_FEATURE:g}; got {repr(value)[:60]}")
    return float(value)
