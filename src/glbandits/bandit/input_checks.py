"""Checks of what users hand over, with a sentence that says what was wrong."""

from typing import TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from glbandits.bandit.entries import arms_check
from glbandits.errors import LARGEST, InvalidInput
from glbandits.maths.links import Link
from glbandits.records import Floats


def as_floats(name: str, values: ArrayLike) -> Floats:
    """A contiguous float64 array of real numbers. Text, dates, complex and masked numbers are refused, not bent."""
    try:
        given = np.ma.asanyarray(values) if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
        if np.ma.is_masked(given) or given.dtype.kind not in "biufO":
            raise InvalidInput(f"{name} must hold plain numbers; got {given.dtype} {repr(values)[:80]}")
        return np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{name} must be an array of numbers; NumPy could not make one of it: {error}") from None


def check_usable(name: str, values: Floats) -> None:
    """Raise InvalidInput if a number is not finite or absurdly large."""
    bad = ~(np.abs(values) <= LARGEST)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        place = f" at {list(where)}" if where else ""
        raise InvalidInput(
            f"{name} must hold finite numbers no larger than {LARGEST:g}; got {values[where]}{place}. "
            "Fill in or drop missing values first"
        )


def checked_arms(arms: ArrayLike, dim: int) -> Floats:
    """The arms as a contiguous matrix (K, dim) of usable numbers; an error if they are none."""
    checked = as_floats("arms", arms)
    if checked.ndim != 2 or checked.shape[1] != dim:
        raise InvalidInput(f"arms must have shape (K, {dim}), a row for each arm; got {checked.shape}")
    if len(checked) == 0:
        raise InvalidInput(f"arms must have at least one row; got shape {checked.shape}")
    check_usable("arms", checked)
    return checked


def checked_features(x: ArrayLike, dim: int) -> Floats:
    """The features of one arm as a vector (dim,) of usable numbers; an error if they are none."""
    checked = as_floats("x", x)
    if checked.shape != (dim,):
        raise InvalidInput(f"x must have shape ({dim},), the features of one arm; got {checked.shape}")
    check_usable("x", checked)
    return checked


def checked_reward(link: Link, reward: float) -> float:
    """The reward as a float that the link accepts; an error if it is none."""
    checked = as_floats("reward", reward)
    if checked.ndim != 0:
        raise InvalidInput(f"reward must be one number; got {reward!r}")
    link.check_reward(float(checked))
    check_usable("reward", checked)
    return float(checked)


def is_usable(arms: ArrayLike, dim: int) -> TypeGuard[Floats]:
    """Whether arms can be used as they are; if not, it is for `checked_arms` to say why or to make them so."""
    try:
        return type(arms) is np.ndarray and arms_check().call(arms, dim)
    except TypeError:  # an array of another type
        return False
