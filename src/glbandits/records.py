"""Records that cross folders: frozen, and checked once, when they are made."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from glbandits.errors import InvalidInput

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Generator: TypeAlias = NDArray[np.uint64]
"""The state of a random generator: key, stream and counter (see `maths.philox`)."""


def set_validated(record: object, **values: Any) -> None:
    """Replace fields of a frozen record by validated values, while it is being made."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


@dataclass(frozen=True)
class Rounds:
    """Consecutive rounds of a bandit problem, with all that is needed to score any way of playing them.

    The same noise is used whichever arm is pulled, so that two policies on the same rounds can be compared
    pairwise (common random numbers).
    """

    arms: Floats
    """Features, (rounds, most arms, dim). Where a round has fewer arms, the rest of its rows are unused."""
    counts: Ints
    """How many arms each round has, (rounds,)."""
    expected: Floats
    """Expected reward of each arm, (rounds, most arms)."""
    noise: Floats
    """What the environment's reward rule turns an expected reward into a reward with, (rounds,)."""
    values: Floats
    """What regret is counted with, (rounds, most arms): the expected reward, unless an environment says otherwise."""

    def __post_init__(self) -> None:
        kinds = {"arms": ("f8", 3), "counts": ("i8", 1), "expected": ("f8", 2), "noise": ("f8", 1), "values": ("f8", 2)}
        for name, (kind, axes) in kinds.items():
            array = np.ascontiguousarray(getattr(self, name), dtype=kind)
            if array.ndim != axes or not np.isfinite(array).all():
                raise InvalidInput(f"{name} must be finite numbers on {axes} axes; got shape {array.shape}")
            object.__setattr__(self, name, array)
        rounds, most, _ = self.arms.shape
        if self.counts.shape != (rounds,) or self.noise.shape != (rounds,):
            raise InvalidInput(
                f"counts and noise need one entry for each of the {rounds} rounds of arms; "
                f"got shapes {self.counts.shape} and {self.noise.shape}"
            )
        for name in ("expected", "values"):
            shape = getattr(self, name).shape
            if shape != (rounds, most):
                raise InvalidInput(f"{name} must have shape {(rounds, most)} like arms; got {shape}")
        if rounds and not (self.counts.min() >= 1 and self.counts.max() <= most):
            raise InvalidInput(
                f"each round needs 1 to {most} arms; got counts {self.counts.min()} to {self.counts.max()}"
            )

    def __len__(self) -> int:
        return len(self.counts)

    def best(self) -> Floats:
        """The value of each round's best arm, (rounds,)."""
        there = np.arange(self.expected.shape[1]) < self.counts[:, np.newaxis]
        best: Floats = np.where(there, self.values, -np.inf).max(axis=1)
        return best
