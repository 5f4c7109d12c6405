"""Checks of arms, features and rewards from users, with detailed error messages."""

from typing import Any

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import MAX_ABS, InvalidInput, value_text
from glbandits.maths.links import Link
from glbandits.maths.sparse_rows import SparseRows


def as_floats(name: str, values: Any) -> Floats:
    """Convert to a contiguous float64 array.

    Raises InvalidInput for text, dates, complex and masked numbers.
    """
    if hasattr(values, "tocsr") or isinstance(values, SparseRows):
        raise InvalidInput(
            f"{name} must be dense for a dense Bandit; got sparse rows. Create the Bandit with sparse=True, or pass "
            ".toarray()"
        )
    try:
        given = np.ma.asanyarray(values) if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
        if np.ma.is_masked(given) or given.dtype.kind not in "biufO":
            is_text = given.dtype.kind in "UT"
            kind = ("text in" if given.ndim else "the text") if is_text else str(given.dtype)
            raise InvalidInput(f"{name} must hold plain numbers; got {kind} {value_text(values, 80)}")
        if given.dtype.kind == "O":
            check_objects(name, given)
        return np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{name} must be an array of numbers; NumPy cannot convert it: {error}") from None


def check_objects(name: str, given: Any) -> None:
    """Raise InvalidInput for text, which NumPy would convert, and missing values of pandas in an array of objects."""
    for where, value in np.ndenumerate(given):
        is_number = value.dtype.kind in "biuf" if isinstance(value, np.generic) else hasattr(value, "__float__")
        if not is_number and value is not None:  # None is NaN
            position = f" at {list(where)}" if where else ""
            missing = ". Fill in or drop missing values first" if type(value).__name__ in ("NAType", "NaTType") else ""
            raise InvalidInput(f"{name} must hold plain numbers; got {value_text(value, 80)}{position}{missing}")


def check_usable(name: str, values: Floats) -> None:
    """Raise InvalidInput unless every absolute value is at most MAX_ABS."""
    bad = ~(np.abs(values) <= MAX_ABS)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        position = f" at {list(where)}" if where else ""
        advice = "Fill in or drop missing values first" if np.isnan(values[where]) else "Use a larger unit"
        raise InvalidInput(
            f"{name} must hold finite numbers no larger than {MAX_ABS:g}; got {values[where]}{position}. {advice}"
        )


def checked_order(shown: Any, count: int) -> Ints:
    """The indices of the arms of a ranking. Raises InvalidInput if they are not different arms, at least one."""
    numbers = as_floats("shown", shown)
    order: Ints = np.where((numbers >= 0) & (numbers < count), numbers, -1.0).astype(np.int64)
    is_valid = numbers.ndim == 1 and numbers.size > 0 and (order >= 0).all() and (order == numbers).all()
    if not is_valid or np.unique(order).size < order.size or np.asarray(shown).dtype == bool:
        raise InvalidInput(
            f"shown must be the indices of different arms, from 0 to {count - 1}; got {value_text(shown, 80)}"
        )
    return order


def checked_reward(link: Link, reward: float) -> float:
    """The reward as a float. Raises InvalidInput if it is no number in the range of the link."""
    checked = as_floats("reward", reward)
    if checked.ndim != 0:
        raise InvalidInput(f"reward must be one number; got {value_text(reward)}")
    check_usable("reward", checked)
    link.check_reward(float(checked))
    return float(checked)
