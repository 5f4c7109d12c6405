"""Rounds: what an environment plays."""

from dataclasses import dataclass

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput


@dataclass(frozen=True)
class Rounds:
    """Consecutive rounds of a bandit problem, with the expected reward of every arm.

    The noise of a round is the same whichever arm is pulled. Two policies on the same rounds can therefore be compared
    pairwise (common random numbers).
    """

    arms: Floats
    """Features, (rounds, max arms, dim). If a round has fewer arms, its last rows are padding."""
    counts: Ints
    """The number of arms of each round, (rounds,)."""
    expected: Floats
    """Expected reward of each arm, (rounds, max arms)."""
    noise: Floats
    """The noise number of each round, (rounds,). `Noise.reward` computes the reward from it and the expected reward."""
    values: Floats
    """The value of each arm from which regret is computed, (rounds, max arms). Usually the same as `expected`."""

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

    @property
    def rows(self) -> Floats:
        """The arms of all rounds, one below another, as compiled code takes them."""
        return self.arms.reshape(-1, self.arms.shape[2])

    @property
    def starts(self) -> Ints:
        """The row of the first arm of each round, (rounds,)."""
        starts: Ints = np.arange(len(self)) * self.arms.shape[1]
        return starts

    def best(self) -> Floats:
        """Return the value of the best arm of each round, (rounds,)."""
        is_arm = np.arange(self.expected.shape[1]) < self.counts[:, np.newaxis]
        best: Floats = np.where(is_arm, self.values, -np.inf).max(axis=1)
        return best
