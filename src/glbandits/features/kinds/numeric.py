"""Kinds of columns with numeric values: numbers, booleans and vectors."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, set_validated
from glbandits.common.errors import MAX_ABS, check_float, check_int
from glbandits.features.kinds.column_kind import (
    FILL_IN,
    LARGEST_WIDTH,
    MISSING_TEXTS,
    NOT_MISSING,
    BadValue,
    ColumnKind,
    Missing,
    MissingKind,
    is_missing,
)

AMOUNT = re.compile(r"[$€£¥]? ?([+-]?)[$€£¥]? ?([1-9]\d{0,2}(?:,\d{3})+|\d*)(\.\d*)?([eE][+-]?\d+)? ?([%$€£¥]?)")
SWAPPED = str.maketrans(",.", ".,")
IN_RANGE = f"must be a finite number between -{MAX_ABS:g} and {MAX_ABS:g}"
UNCLEAR_COMMA = (
    "must show whether a comma is decimal or separates thousands, or be declared as decimal_comma or thousands_comma"
)
AS_OTHERS = "Write it without signs and separators, in the unit of the other values"
BOOLEAN_WORDS = ({"true", "false"}, {"t", "f"}, {"yes", "no"}, {"y", "n"}, {"on", "off"})
"""Pairs of texts that make a column boolean if it has both."""
TRUE, FALSE = frozenset({"true", "t", "yes", "y", "1", "on"}), frozenset({"false", "f", "no", "n", "0", "off"})


def parse_number(text: str, *, decimal_comma: bool = False) -> float | None:
    """Parse a number with thousands separators, a currency or a percent sign.

    With `decimal_comma`, points separate thousands. Returns None if the text is no number.

    >>> [parse_number(text) for text in ("12", "12%", "1,234.5", "$3", "1e3", "a12", "1,23")]
    [12.0, 0.12, 1234.5, 3.0, 1000.0, None, None]
    >>> [parse_number(text, decimal_comma=True) for text in ("12", "5,78", "1.234,5", "1.234", "1,234,567", "12.5")]
    [12.0, 5.78, 1234.5, 1234.0, None, None]
    """
    match = AMOUNT.fullmatch(text.strip().translate(SWAPPED) if decimal_comma else text.strip())
    if match is None or not any(char.isdigit() for char in text):
        return None
    sign, digits, decimals, exponent, unit = (part or "" for part in match.groups())
    amount = float(f"{sign}{digits.replace(',', '')}{decimals}{exponent}")
    return amount / 100.0 if unit == "%" else amount


def is_numeric(text: str) -> bool:
    """Whether a text is a number, with a decimal point or a decimal comma."""
    return parse_number(text) is not None or parse_number(text, decimal_comma=True) is not None


def comma_meaning(texts: Sequence[str]) -> str | None:
    """What a comma means in texts of numbers: "decimal_comma", "thousands_comma", or None if that is not clear.

    It is a decimal comma if all texts can be read so, and at least one cannot have a decimal point, such as "5,78" or
    "1.234.567". It separates thousands if all texts can be read so, and at least one can have no decimal comma, such as
    "1,234.5" or "1,234,567", or there is no comma: the point in "1.234" is then a decimal point.
    """
    decimal = all(parse_number(text, decimal_comma=True) is not None for text in texts)
    thousands = all(parse_number(text) is not None for text in texts)
    if decimal and thousands and any("," in text for text in texts):
        return None
    return "thousands_comma" if thousands else "decimal_comma" if decimal else None


@dataclass(frozen=True)
class Number(MissingKind):
    """A number, centred and scaled.

    >>> numbers = Number(mean=40.0, scale=10.0, missing="indicator")
    >>> numbers.feature_names("age")
    ['age', 'age is missing']
    """

    kind: ClassVar[str] = "number"
    mean: float = 0.0
    scale: float = 1.0
    missing: Missing = "indicator"
    """A missing value is replaced by the mean. With "indicator", a second feature is 1 for missing values."""
    from_text: bool = False
    """Whether text such as "$12" or "1,234.5" is parsed as a number."""
    decimal_comma: bool | None = False
    """Whether commas in text are decimal commas, and points separate thousands: "5,78" is 5.78, "1.234" is 1234. None
    if no text shows that: "5,78" is then 5.78, and "1,234" is an error."""
    percent: bool = False
    """Whether values are texts with a percent sign: "12%" is 0.12. Texts without a sign and numbers are errors, because
    12 may be 12% or 1200%; only 0 needs no sign. If False, "12%" is an error."""

    def __post_init__(self) -> None:
        scale = check_float("scale", self.scale, above=0)
        set_validated(self, mean=check_float("mean", self.mean), scale=scale, from_text=bool(self.from_text))
        decimal_comma = None if self.decimal_comma is None else bool(self.decimal_comma)
        set_validated(self, decimal_comma=decimal_comma, percent=bool(self.percent))
        self._check_missing()

    @property
    def examples(self) -> tuple[Any, Any]:
        amounts = self.mean, self.mean + self.scale
        if not self.percent:
            return float(f"{amounts[0]:.3g}"), float(f"{amounts[1]:.3g}")
        texts = [f"{100 * amount:.3g}%" for amount in amounts]
        return tuple(text.translate(SWAPPED) if self.decimal_comma else text for text in texts)  # type: ignore[return-value]

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:
        mean, scale, plain = self.mean, self.scale, not self.percent
        for row, value in enumerate(values):
            amount = value if plain and (type(value) is float or type(value) is int) else self._convert(row, value)
            if amount is None or amount != amount:
                self._encode_missing(row, start + row * stride, indices, numbers)
            elif -MAX_ABS <= amount <= MAX_ABS:
                indices.append(start + row * stride)
                numbers.append((amount - mean) / scale)
            else:
                raise BadValue(row, IN_RANGE, value)

    def encode_array(self, values: Floats) -> Floats:
        """The features of an array of numbers, (n, width). NaN is a missing value."""
        absent = np.isnan(values)
        if self.missing == "error" and absent.any():
            raise BadValue(int(np.argmax(absent)), NOT_MISSING, None, FILL_IN)
        bad = ~(np.abs(values) <= MAX_ABS) & ~absent
        if bad.any():
            row = int(np.argmax(bad))
            raise BadValue(row, IN_RANGE, float(values[row]))
        if self.percent and (unsigned := ~absent & (values != 0.0)).any():
            raise self._wrong_sign(row := int(np.argmax(unsigned)), float(values[row]))
        scaled = np.where(absent, 0.0, (values - self.mean) / self.scale)
        return np.stack([scaled, absent], axis=1)[:, : self.width]

    def _convert(self, row: int, value: Any) -> float | None:
        """Convert a value that is neither float nor int. Returns None if it is missing."""
        if isinstance(value, str):
            text = value.strip()
            if text in MISSING_TEXTS:
                return None
            is_amount = self.from_text or self.percent or self.decimal_comma
            amount = parse_number(text, decimal_comma=bool(self.decimal_comma)) if is_amount else _parse_float(text)
            if self.decimal_comma is None:
                other = parse_number(text, decimal_comma=True)
                if amount is not None and other is not None and amount != other:
                    raise BadValue(row, UNCLEAR_COMMA, value, "Add a digit after the decimal point or comma")
                amount = other if amount is None else amount
            if amount is None:
                raise self._bad_text(row, value, text)
            if amount and text.endswith("%") != self.percent:
                raise self._wrong_sign(row, value)
            return amount
        if is_missing(value):
            return None
        if isinstance(value, bool | np.bool_):
            raise BadValue(row, "must be a number", value, "Use 1 or 0, or declare the column as a boolean")
        if isinstance(value, Real | np.number) or hasattr(value, "__float__"):
            if self.percent and value:
                raise self._wrong_sign(row, value)
            return float(value)
        raise BadValue(row, "must be a number", value)

    def _wrong_sign(self, row: int, value: Any) -> BadValue:
        """The error of a value without a percent sign in a column of percentages, or the reverse."""
        have, write = ("no", AS_OTHERS)
        if self.percent:
            text = value.strip() if isinstance(value, str) else f"{value:g}"
            have, write = "a", f"If it is a percentage, write {text + '%'!r}"
        return BadValue(row, f"must have {have} percent sign, as the others of the column", value, write)

    def _bad_text(self, row: int, value: str, text: str) -> BadValue:
        """The error of a text that is no number, or one in a format that the column does not have."""
        if not (self.from_text or self.percent) and parse_number(text) is not None:
            return BadValue(row, "must be a plain number, such as 12.5", value, AS_OTHERS)
        if parse_number(text, decimal_comma=not self.decimal_comma) is not None:
            advice = "Write it as" if self.percent else "Send a number instead of text, or write it as"
            advice = f"{advice} {text.translate(SWAPPED).removesuffix('%').rstrip() + '%' * self.percent!r}"
            return BadValue(
                row, f"must be a number with a decimal {'comma' if self.decimal_comma else 'point'}", value, advice
            )
        return BadValue(
            row, "must be a number", value, "Correct it, leave it empty, or declare the column as a category"
        )


def _parse_float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@dataclass(frozen=True)
class Boolean(MissingKind):
    """True or false. Also accepts 1 and 0, and text such as "yes" and "no"."""

    kind: ClassVar[str] = "boolean"
    missing: Missing = "indicator"
    """A missing value is replaced by the mean. With "indicator", it is a level of its own: a second feature is 1."""
    mean: float = 0.5
    """The share of true values."""

    def __post_init__(self) -> None:
        set_validated(self, mean=check_float("mean", self.mean, at_least=0, at_most=1))
        self._check_missing()

    @property
    def examples(self) -> tuple[Any, Any]:
        return True, False

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:
        for row, value in enumerate(values):
            if value is True or value is False:
                number = 1.0 if value else 0.0
            elif is_missing(value) or (isinstance(value, str) and value.strip() in MISSING_TEXTS):
                if self.missing != "impute":
                    self._encode_missing(row, start + row * stride, indices, numbers)
                    continue
                number = self.mean
            else:
                number = _parse_boolean(row, value)
            indices.append(start + row * stride)
            numbers.append(number)


def _parse_boolean(row: int, value: object) -> float:
    text = str(value).strip().lower().removesuffix(".0")
    if text not in TRUE | FALSE:
        raise BadValue(row, "must be true or false", value, "Use true, false, 1, 0, yes or no")
    return float(text in TRUE)


@dataclass(frozen=True)
class Vector(ColumnKind):
    """A list of numbers of a fixed size. The numbers are the features."""

    kind: ClassVar[str] = "vector"
    size: int

    def __post_init__(self) -> None:
        set_validated(self, size=check_int("size", self.size, at_least=0, at_most=LARGEST_WIDTH))

    @property
    def width(self) -> int:
        return self.size

    @property
    def takes_missing(self) -> bool:
        return False

    @property
    def examples(self) -> tuple[Any, Any]:
        return [0.0] * self.size, [1.0] * self.size

    def feature_names(self, column: str) -> list[str]:
        return [f"{column}[{index}]" for index in range(self.size)]

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:
        for row, value in enumerate(values):
            try:
                vector = np.asarray(value, dtype=np.float64)
            except (TypeError, ValueError):
                vector = np.empty(0)
            if vector.shape != (self.size,) or not (np.abs(vector) <= MAX_ABS).all():
                raise BadValue(row, f"must be a list of {self.size} finite numbers", value)
            indices.extend(range(start + row * stride, start + row * stride + self.size))
            numbers.extend(vector.tolist())
