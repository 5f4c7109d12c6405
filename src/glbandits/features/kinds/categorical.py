"""Kinds of columns with known categories: one category per row, or a list of them."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from unicodedata import normalize

import numpy as np

from glbandits.common.arrays import set_validated
from glbandits.common.errors import InvalidInput, value_text
from glbandits.features.kinds.column_kind import (
    LARGEST_WIDTH,
    NOT_MISSING,
    BadValue,
    ColumnKind,
    Missing,
    MissingKind,
    is_missing,
)

SEPARATORS = re.compile(r"[,;|]")
CODE = re.compile(r"0\d+", re.ASCII)
"""Digits with leading zeros, such as the postal code 01067."""
DIGITS = re.compile(r"\d+", re.ASCII)


def as_category(value: Any) -> str | None:
    """The category of a value, as text; None if the value is missing.

    3, 3.0 and "3" are the same category. True is the category "true". Texts are the same category if `normalised`
    makes them equal.

    >>> [as_category(value) for value in ("fr", " fr ", 3, 3.0, True, None, "")]
    ['fr', 'fr', '3', '3', 'true', None, None]
    """
    if type(value) is str:
        return normalised(value) or None
    if is_missing(value):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and value.is_integer():
        return str(int(value))
    return normalised(str(value)) or None


def natural_order(names: Iterable[str]) -> tuple[str, ...]:
    """Sort names so that numbers in them are compared as numbers.

    >>> natural_order(["item 10", "item 9", "a"])
    ('a', 'item 9', 'item 10')
    """

    def parts(name: str) -> tuple[list[tuple[bool, int, str]], str]:
        pieces = re.split(r"([0-9]{1,18})", name)
        numbered = [(False, int(p), "") if p.isdecimal() and p.isascii() else (True, 0, p) for p in pieces if p]
        return numbered, name

    return tuple(sorted(names, key=parts))


def normalised(text: str) -> str:
    r"""The text without spaces at both ends, in the Unicode form NFC.

    The form NFC writes "ü" as one character, where other programs may write "u" and a combining mark.

    >>> normalised(" Zu\u0308rich\n") == "Zürich"
    True
    """
    text = text.strip()
    return text if text.isascii() else normalize("NFC", text)


@dataclass(frozen=True)
class Category(MissingKind):
    """One of a few known values, with a 0-or-1 feature for each of them (one-hot encoding).

    If unknown values are no errors, an unknown value is the code that differs from it only in leading zeros, which
    other programs drop: a number, if there is exactly one such code; a text, if all codes have the same number of
    digits, or none has leading zeros.

    >>> Category(("de", "fr"), missing="indicator").feature_names("country")
    ['country=de', 'country=fr', 'country=other', 'country=missing']
    """

    kind: ClassVar[str] = "category"
    values: tuple[str, ...]
    other: bool = True
    """Whether all unknown values share one more feature. If False, an unknown value is an error."""
    missing: Missing = "impute"
    """With "impute", a missing value counts as unknown. With "indicator", it has its own feature."""
    _slots: dict[str | None, int] = field(init=False, repr=False, compare=False)
    _slots_of_numbers: dict[str, int] = field(init=False, repr=False, compare=False)
    _slots_of_digits: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check_missing()
        values, other = _texts("values", self.values), bool(self.other)
        slots: dict[str | None, int] = {value: slot for slot, value in enumerate(values)}
        slots[None] = {"indicator": len(values) + other, "impute": len(values) if other else -1, "error": -1}[
            self.missing
        ]
        codes = {value: _without_zeros(value) for value in values if other and DIGITS.fullmatch(value)}
        counts = Counter(codes.values())
        of_numbers = {number: slots[code] for code, number in codes.items() if counts[number] == 1}
        is_clear = len(set(map(len, codes))) == 1 or not any(map(CODE.fullmatch, codes))
        set_validated(self, values=values, other=other, _slots=slots)
        set_validated(self, _slots_of_numbers=of_numbers, _slots_of_digits=of_numbers if is_clear else {})

    @property
    def width(self) -> int:
        return len(self.values) + self.other + self.takes_missing

    @property
    def examples(self) -> tuple[Any, Any]:
        return (self.values[0], self.values[-1]) if self.values else ("", "")

    def feature_names(self, column: str) -> list[str]:
        more = ["other"] * self.other + ["missing"] * self.takes_missing
        return [f"{column}={value}" for value in (*self.values, *more)]

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:
        slots, other, at = self._slots, len(self.values) if self.other else -1, start
        for value in values:
            if type(value) is str and value and value in slots:
                slot = slots[value]
            elif isinstance(value, list | dict):
                raise BadValue((at - start) // stride, "must be a text, a number or a boolean", value)
            else:
                category = as_category(value)
                slot = slots[category] if category in slots else self._slot_of_digits(category, value, other)
            if slot < 0:
                requirement = NOT_MISSING if is_missing(value) else f"must be one of {_first_values(self.values)}"
                raise BadValue((at - start) // stride, requirement, value)
            indices.append(at + slot)
            numbers.append(1.0)
            at += stride

    def _slot_of_digits(self, category: str | None, value: Any, other: int) -> int:
        """The index of the code that differs from an unknown category only in leading zeros, or `other`."""
        slots = self._slots_of_digits if isinstance(value, str) else self._slots_of_numbers
        if not slots or category is None or not DIGITS.fullmatch(category):
            return other
        return slots.get(_without_zeros(category), other)


def _without_zeros(digits: str) -> str:
    return digits.lstrip("0") or "0"


@dataclass(frozen=True)
class Tags(ColumnKind):
    """A list of categories, with a 0-or-1 feature for each known one, and one for all others.

    A text is split at commas, semicolons and vertical bars. All features of a missing list are 0.
    """

    kind: ClassVar[str] = "list"
    values: tuple[str, ...]
    _slots: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        values = _texts("values", self.values)
        set_validated(self, values=values, _slots={value: slot for slot, value in enumerate(values)})

    @property
    def width(self) -> int:
        return len(self.values) + 1

    @property
    def examples(self) -> tuple[Any, Any]:
        return list(self.values[:1]), list(self.values[-1:])

    def feature_names(self, column: str) -> list[str]:
        return [f"{column} has {value}" for value in (*self.values, "other")]

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:
        other = len(self.values)
        for row, value in enumerate(values):
            tags = as_tags(value)
            if tags is None:
                raise BadValue(row, "must be a list of texts", value, "Use a list, or a text with commas")
            slots = {self._slots.get(tag, other) for tag in tags}
            indices.extend(start + row * stride + slot for slot in slots)
            numbers.extend([1.0] * len(slots))


def as_tags(value: Any) -> list[str] | None:
    """The categories in a list or a separated text; None if the value is no list.

    >>> as_tags("new; red"), as_tags(["new", None]), as_tags(None), as_tags(3)
    (['new', 'red'], ['new'], [], None)
    """
    if isinstance(value, str):
        value = [part.strip() for part in SEPARATORS.split(value)]
    if not isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "tolist"):
        return [] if is_missing(value) else None
    return [text for text in map(as_category, value) if text is not None]


def _texts(name: str, values: Any) -> tuple[str, ...]:
    """Return the normalised texts. Raises InvalidInput if two of them are the same category."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} must be a list of texts; got {value_text(values)}")
    given = tuple(values)
    texts = tuple(normalised(text) for text in given if isinstance(text, str))
    if len(texts) < len(given) or len(set(texts)) < len(texts) or len(texts) > LARGEST_WIDTH:
        raise InvalidInput(f"{name} must be distinct texts; got {value_text(given, 80)}")
    return texts


def _first_values(values: Sequence[str]) -> str:
    shown = ", ".join(map(repr, values[:8]))
    return shown if len(values) <= 8 else f"{shown} and {len(values) - 8} more"
