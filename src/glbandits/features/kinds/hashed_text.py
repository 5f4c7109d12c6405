"""Kinds of columns that are hashed: categories with many values, and the words of free text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar

from glbandits.common.arrays import set_validated
from glbandits.common.errors import check_int
from glbandits.features.hashing.feature_codes import LONGEST_CACHED, FeatureCodes
from glbandits.features.kinds.categorical import DIGITS, as_category
from glbandits.features.kinds.column_kind import LARGEST_WIDTH, ColumnKind

DEFAULT_WIDTH = 256
MAX_DIGITS = 100
MAX_CACHED = 100_000
"""The largest number of texts whose hashes a column caches."""
WORD = re.compile(r"\w+")
"""A token of free text: letters, digits and underscores."""
CODES = FeatureCodes(seed=0)


@dataclass(frozen=True)
class _HashedKind(ColumnKind):
    """A column whose texts are hashed to an index and a sign. Different texts may share an index."""

    size: int = DEFAULT_WIDTH
    _cache: dict[str, tuple[int, float]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        set_validated(self, size=check_int("size", self.size, at_least=1, at_most=LARGEST_WIDTH))

    @property
    def width(self) -> int:
        return self.size

    @property
    def examples(self) -> tuple[Any, Any]:
        return "some text", "another text"

    def feature_names(self, column: str) -> list[str]:
        return [f"{column}#{index}" for index in range(self.size)]

    def _hashed_index(self, text: str) -> tuple[int, float]:
        """The index and the sign of a text."""
        index_and_sign = self._cache.get(text)
        if index_and_sign is None:
            code = int.from_bytes(CODES.code(text), "little")
            index_and_sign = ((code >> 32) * self.size) >> 32, 1.0 if code & 1 else -1.0
            if len(text) <= LONGEST_CACHED:
                if len(self._cache) >= MAX_CACHED:
                    self._cache.clear()
                self._cache[text] = index_and_sign
        return index_and_sign


@dataclass(frozen=True)
class Hashed(_HashedKind):
    """One of many values, hashed to one feature. Values that were never seen are hashed too."""

    kind: ClassVar[str] = "hashed"
    digits: int = 0
    """The number of digits of codes, such as 5: 4109 is then the code "04109". If it is 1, "04109" is the code 4109. If
    it is 0, a text is used as it is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        set_validated(self, digits=check_int("digits", self.digits, at_least=0, at_most=MAX_DIGITS))

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:
        for row, value in enumerate(values):
            text = as_category(value) or ""
            if self.digits and DIGITS.fullmatch(text):
                text = text.lstrip("0").zfill(self.digits)
            index, sign = self._hashed_index(text)
            indices.append(start + row * stride + index)
            numbers.append(sign)


@dataclass(frozen=True)
class Text(_HashedKind):
    """Free text as a bag of hashed words, scaled to Euclidean norm 1.

    Case and order of words are ignored. All features of an empty or missing text are 0.
    """

    kind: ClassVar[str] = "text"

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:
        for row, value in enumerate(values):
            words = WORD.findall((as_category(value) or "").lower())
            counts: dict[int, float] = {}
            for word in words:
                index, sign = self._hashed_index(word)
                counts[index] = counts.get(index, 0.0) + sign
            norm = sqrt(sum(count * count for count in counts.values())) or 1.0
            at = start + row * stride
            indices.extend(at + index for index in counts)
            numbers.extend(count / norm for count in counts.values())
