"""Operations on vectors, with every sum in the order of its index.

With a fixed order of sums, compiled code, uncompiled code and all machines give the same bits. This excludes BLAS and
`fastmath`; docs/decisions/0002-sums-in-order.md has the cost.
"""

import math

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import jittable


@jittable
def dot(a: Floats, b: Floats) -> float:
    """The product a'b."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@jittable
def dot_row(A: Floats, row: int, b: Floats) -> float:
    """The product of a row of A with b.

    In a loop over rows, this is faster than `dot` with a slice of A.
    """
    total = 0.0
    for i in range(A.shape[1]):
        total += A[row, i] * b[i]
    return total


@jittable
def norm(a: Floats) -> float:
    """The Euclidean norm."""
    return math.sqrt(dot(a, a))


@jittable
def add_scaled(target: Floats, scale: float, a: Floats) -> None:
    """Compute target += scale * a, in place and without a temporary array."""
    for i in range(a.shape[0]):
        target[i] += scale * a[i]


@jittable
def add_scaled_row(target: Floats, scale: float, A: Floats, row: int) -> None:
    """Compute target += scale * A[row], in place and without a slice of A."""
    for i in range(A.shape[1]):
        target[i] += scale * A[row, i]


@jittable
def copy_to(target: Floats, a: Floats) -> None:
    """Copy a to the start of target. NumPy's `target[:] = a` takes two seconds to compile."""
    for i in range(a.shape[0]):
        target[i] = a[i]


@jittable
def square_matrix(values: Floats, start: int, side: int) -> Floats:
    """A view of side x side numbers from `start` on as a matrix.

    A function, because `reshape` compiles slowly.
    """
    return values[start : start + side * side].reshape(side, side)


@jittable
def project_to_ball(theta: Floats, centre: Floats, radius: float) -> None:
    """Move theta, in place, to the nearest point of the ball around centre."""
    squared = 0.0
    for i in range(theta.shape[0]):
        difference = theta[i] - centre[i]
        squared += difference * difference
    distance = math.sqrt(squared)
    if distance > radius:
        for i in range(theta.shape[0]):
            theta[i] = centre[i] + (radius / distance) * (theta[i] - centre[i])


@jittable
def point_mass(out: Floats, arm: int) -> None:
    """Write the probabilities of a rule that always chooses this arm."""
    for a in range(out.shape[0]):
        out[a] = 1.0 if a == arm else 0.0


@jittable
def uniform_mass(out: Floats) -> None:
    """Write equal probabilities for all arms."""
    for a in range(out.shape[0]):
        out[a] = 1.0 / out.shape[0]
