"""The layout of a state: a flat array of scalars, vectors, matrices and observations.

A policy declares the parts once. The layout then allocates the array, validates one that was loaded from a file, and
provides functions with which compiled code gets a part of the array.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.compilation.numba_support import jittable
from glbandits.maths.fitting.observation_history import empty_history, is_valid_history

Part: TypeAlias = Callable[[Floats, int], Floats]
"""A function part(state, dim) for compiled code. It returns a slice, so writing to it writes to the state."""
Offset: TypeAlias = Callable[[int], int]
"""A function offset(dim) for compiled code."""

LARGEST_STATE = 5e8
"""The largest allowed number of floats in a state (4 GB)."""


@dataclass(frozen=True)
class _Declared:
    name: str
    kind: str
    """"count", "scalar", "vector", "factor" or "matrix"."""
    start: tuple[int, int, int]
    """The offset as a polynomial in dim: (a, b, c) for a + b dim + c dim^2."""
    size: tuple[int, int, int]
    """The number of floats, as such a polynomial."""
    at_least: float = -math.inf

    def slice_for(self, dim: int) -> slice:
        start = _value(self.start, dim)
        return slice(start, start + _value(self.size, dim))


def _value(polynomial: tuple[int, int, int], dim: int) -> int:
    return polynomial[0] + polynomial[1] * dim + polynomial[2] * dim * dim


class StateLayout:
    """The parts of a state, in the order in which they are declared.

    >>> import numpy as np
    >>> LAYOUT = StateLayout()
    >>> REWARDS = LAYOUT.count("rewards")
    >>> theta = LAYOUT.vector("theta")
    >>> state = LAYOUT.allocate(dim=3, theta=0.5)
    >>> theta(state, 3)[0] += 1.0
    >>> state
    array([0. , 1.5, 0.5, 0.5])
    >>> state[REWARDS] = -1.0
    >>> LAYOUT.is_valid(state, dim=3)
    False
    """

    def __init__(self, begins_with: "StateLayout | None" = None) -> None:
        """Create an empty layout, or one that begins with the parts of another (not its history)."""
        self._parts: list[_Declared] = [] if begins_with is None else list(begins_with._parts)
        self._end: tuple[int, int, int] = (0, 0, 0) if begins_with is None else begins_with._end
        self.has_history = False
        """Whether the state ends with a history of observations, and so may grow."""
        self._row_extra = 0

    def count(self, name: str) -> int:
        """Declare an integer of at least 0. Returns its index in the state."""
        return self.scalar(name, at_least=0.0, kind="count")

    def scalar(self, name: str, at_least: float = -math.inf, kind: str = "scalar") -> int:
        """Declare a number. Returns its index in the state.

        Scalars must come before all other parts.
        """
        if self._end[1:] != (0, 0):
            raise InvalidInput(f"declare the scalar {name!r} before vectors and matrices")
        return self._declare(name, kind, (1, 0, 0), at_least)[0]

    def vector(self, name: str, at_least: float = -math.inf, positive: bool = False) -> Part:
        """Declare a vector of dim numbers.

        Returns a function that slices it out of a state.
        """
        return self.array(name, (0, 1, 0), math.ulp(0.0) if positive else at_least)

    def factor(self, name: str) -> Part:
        """Declare a (dim, dim) upper triangular Cholesky factor.

        Its diagonal is positive in a valid state.
        """
        return self._matrix(name, "factor")

    def matrix(self, name: str) -> Part:
        """Declare a symmetric (dim, dim) matrix.

        Its diagonal is positive in a valid state.
        """
        return self._matrix(name, "matrix")

    def _matrix(self, name: str, kind: str) -> Part:
        a, b, c = self._declare(name, kind, (0, 0, 1))

        @jittable
        def matrix(state: Floats, dim: int) -> Floats:
            start = a + b * dim + c * dim * dim
            return state[start : start + dim * dim].reshape(dim, dim)

        return matrix

    def array(self, name: str, size: tuple[int, int, int], at_least: float = -math.inf) -> Part:
        """Declare a + b dim + c dim^2 numbers, where size is (a, b, c)."""
        (a, b, c), (n0, n1, n2) = self._declare(name, "vector", size, at_least), size

        @jittable
        def array(state: Floats, dim: int) -> Floats:
            start = a + b * dim + c * dim * dim
            return state[start : start + n0 + n1 * dim + n2 * dim * dim]

        return array

    def history(self, extra: int = 0) -> Offset:
        """Declare the history of observations, which is the last part.

        An observation has dim + extra features. Returns a function for the offset of the history.
        """
        self.has_history, self._row_extra = True, extra
        return self.end()

    def end(self) -> Offset:
        """Return a function for the offset after the parts declared so far."""
        a, b, c = self._end

        @jittable
        def offset(dim: int) -> int:
            return a + b * dim + c * dim * dim

        return offset

    def _declare(
        self, name: str, kind: str, size: tuple[int, int, int], at_least: float = -math.inf
    ) -> tuple[int, int, int]:
        if self.has_history:
            raise InvalidInput(f"declare {name!r} before the history, which must be the last part")
        start = self._end
        self._parts.append(_Declared(name, kind, start, size, at_least))
        self._end = (start[0] + size[0], start[1] + size[1], start[2] + size[2])
        return start

    def allocate(self, dim: int, tail: int = 0, **initial: float) -> Floats:
        """Create a state of zeros with the given initial values, by part name.

        The value of a matrix is written to its diagonal. The value of a factor R is the diagonal of R'R. The state ends
        with an empty history if one was declared, else with `tail` zeros.
        """
        size = _value(self._end, dim)
        if size + tail > LARGEST_STATE:
            raise InvalidInput(
                f"the state would hold {size + tail:,} numbers for dim = {dim}; at most {LARGEST_STATE:,.0f} are "
                "allowed. Use fewer features, or settings that need less memory."
            )
        state = np.zeros(size + tail)
        for part in self._parts:
            if part.name in initial:
                _fill(state[part.slice_for(dim)], part.kind, initial[part.name])
        return np.concatenate([state, empty_history(dim + self._row_extra)]) if self.has_history else state

    def is_valid(self, state: Floats, dim: int, tail: int = 0) -> bool:
        """Whether this array can be a state with a tail of this size.

        For states that come from files.
        """
        size = _value(self._end, dim)
        if state.ndim != 1 or state.dtype != np.float64 or state.size < size or not np.isfinite(state).all():
            return False
        if self.has_history:
            if not is_valid_history(state, size, dim + self._row_extra):
                return False
        elif state.size != size + tail:
            return False
        return all(_is_valid_part(state[part.slice_for(dim)], part) for part in self._parts)

    def parts(self, state: Floats, dim: int) -> Mapping[str, Floats]:
        """Return every declared part by name, as slices of the state. Not for compiled code."""
        return {part.name: state[part.slice_for(dim)] for part in self._parts}


def _fill(values: Floats, kind: str, value: float) -> None:
    if kind in ("factor", "matrix"):
        side = math.isqrt(values.size)
        values.reshape(side, side)[np.diag_indices(side)] = math.sqrt(value) if kind == "factor" else value
    else:
        values[:] = value


def _is_valid_part(values: Floats, part: _Declared) -> bool:
    if part.kind in ("factor", "matrix"):
        side = math.isqrt(values.size)
        return bool((np.diagonal(values.reshape(side, side)) > 0.0).all())
    if part.kind == "count" and not float(values[0]).is_integer():
        return False
    return bool((values >= part.at_least).all())
