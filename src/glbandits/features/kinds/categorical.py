"""Kinds of columns that hold names: categories, hashed categories, text, and lists of categories."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar

from glbandits.errors import InvalidInput, check_int, lookup
from glbandits.features.hashing.feature_codes import LONGEST_KNOWN, Codes
from glbandits.features.kinds.column_kind import MISSING, BadValue, ColumnKind, Missing, is_missing
from glbandits.records import set_validated

DEFAULT_WIDTH = 256
WIDEST = 2**24
MOST_KNOWN = 100_000
"""Hashes of texts that a column remembers."""
WORD = re.compile(r"\w+")
SEPARATORS = re.compile(r"[,;|]")
CODES = Codes(seed=0)


def as_category(value: Any) -> str | None:
    """The text by which a value is known; None if it is missing. 3, 3.0 and "3" are the same, and True is "true".

    >>> [as_category(value) for value in ("fr", 3, 3.0, True, None, "")]
    ['fr', '3', '3', 'true', None, None]
    """
    if type(value) is str:
        return value or None
    if is_missing(value):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) or None


@dataclass(frozen=True)
class Category(ColumnKind):
    """One of a few values: a feature for each of them, which is 1 or 0.

    >>> Category(("de", "fr"), missing="indicator").feature_names("country")
    ['country=de', 'country=fr', 'country=other', 'country=missing']
    """

    kind: ClassVar[str] = "category"
    values: tuple[str, ...]
    other: bool = True
    """Whether there is a feature for any other value. Without one, another value is an error."""
    missing: Missing = "impute"
    """A missing value counts as another value; with "indicator" it has a feature of its own."""
    _slots: dict[str | None, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        missing = lookup("way to treat missing values", self.missing, MISSING)
        values, other = _texts("values", self.values), bool(self.other)
        slots: dict[str | None, int] = {value: slot for slot, value in enumerate(values)}
        slots[None] = {"indicator": len(values) + other, "impute": len(values) if other else -1, "error": -1}[missing]
        set_validated(self, values=values, other=other, missing=missing, _slots=slots)

    @property
    def width(self) -> int:  # noqa: D102
        return len(self.values) + self.other + self.takes_missing

    @property
    def takes_missing(self) -> bool:  # noqa: D102
        return self.missing == "indicator"

    @property
    def example(self) -> Any:  # noqa: D102
        return next(iter(self.values), "")

    def feature_names(self, column: str) -> list[str]:  # noqa: D102
        more = ["other"] * self.other + ["missing"] * self.takes_missing
        return [f"{column}={value}" for value in (*self.values, *more)]

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:  # noqa: D102
        slot_of, other, at = self._slots.get, len(self.values) if self.other else -1, start
        for value in values:
            slot = slot_of(value if type(value) is str and value else as_category(value), other)
            if slot < 0:
                need = "must not be missing" if is_missing(value) else f"must be one of {_some(self.values)}"
                raise BadValue((at - start) // stride, need, value)
            indices.append(at + slot)
            numbers.append(1.0)
            at += stride


@dataclass(frozen=True)
class _Hashed(ColumnKind):
    """Features at indices that a hash gives, with its sign: different names may share an index."""

    size: int = DEFAULT_WIDTH
    _known: dict[str, tuple[int, float]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        set_validated(self, size=check_int("size", self.size, at_least=1, at_most=WIDEST))

    @property
    def width(self) -> int:
        return self.size

    @property
    def example(self) -> Any:
        return "some text"

    def feature_names(self, column: str) -> list[str]:
        return [f"{column}#{index}" for index in range(self.size)]

    def _hashed_index(self, text: str) -> tuple[int, float]:
        """The index and the sign of a text."""
        known = self._known.get(text)
        if known is None:
            code = int.from_bytes(CODES.code(text), "little")
            known = ((code >> 32) * self.size) >> 32, 1.0 if code & 1 else -1.0
            if len(text) <= LONGEST_KNOWN:
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                self._known[text] = known
        return known


@dataclass(frozen=True)
class Hashed(_Hashed):
    """One of many values: a feature at the index that its hash gives. Values that were never seen have one too."""

    kind: ClassVar[str] = "hashed"

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:  # noqa: D102
        for row, value in enumerate(values):
            index, sign = self._hashed_index(as_category(value) or "")
            indices.append(start + row * stride + index)
            numbers.append(sign)


@dataclass(frozen=True)
class Text(_Hashed):
    """Words: a hashed bag of them, of length 1. Case and order do not count. No text has no features."""

    kind: ClassVar[str] = "text"

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:  # noqa: D102
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


@dataclass(frozen=True)
class Tags(ColumnKind):
    """A list of categories, or a text with commas, semicolons or bars between them: a feature for each of them."""

    kind: ClassVar[str] = "list"
    values: tuple[str, ...]
    _slots: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        values = _texts("values", self.values)
        set_validated(self, values=values, _slots={value: slot for slot, value in enumerate(values)})

    @property
    def width(self) -> int:  # noqa: D102
        return len(self.values) + 1

    @property
    def example(self) -> Any:  # noqa: D102
        return list(self.values[:1])

    def feature_names(self, column: str) -> list[str]:  # noqa: D102
        return [f"{column} has {value}" for value in (*self.values, "other")]

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:  # noqa: D102
        other = len(self.values)
        for row, value in enumerate(values):
            tags = as_tags(value)
            if tags is None:
                raise BadValue(row, "must be a list of texts", value)
            slots = {self._slots.get(tag, other) for tag in tags}
            indices.extend(start + row * stride + slot for slot in slots)
            numbers.extend([1.0] * len(slots))


def as_tags(value: Any) -> list[str] | None:
    """The categories of a list, without missing ones; None if it is no list.

    >>> as_tags("new; red"), as_tags(["new", None]), as_tags(None), as_tags(3)
    (['new', 'red'], ['new'], [], None)
    """
    if isinstance(value, str):
        value = [part.strip() for part in SEPARATORS.split(value)]
    if not isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "tolist"):
        return [] if is_missing(value) else None
    return [text for text in map(as_category, value) if text is not None]


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} must be a list of texts, got {values!r}")
    texts = tuple(values)
    if not all(isinstance(text, str) for text in texts) or len(set(texts)) < len(texts) or len(texts) > WIDEST:
        raise InvalidInput(f"{name} must be different texts, got {repr(texts)[:80]}")
    return texts


def _some(values: Sequence[str]) -> str:
    shown = ", ".join(map(repr, values[:8]))
    return shown if len(values) <= 8 else f"{shown} and {len(values) - 8} more"
