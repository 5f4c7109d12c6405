"""SlateLog: slates, which are several slots that are filled together, with their propensities and rewards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from glbandits.errors import InvalidInput
from glbandits.evaluation.arm_features import checked
from glbandits.records import Floats, set_validated

SlateTarget: TypeAlias = Floats | Sequence[Sequence[float]] | Callable[["SlateLog"], Floats]
"""The target's probability of the logged arm of each slot, given the arms of earlier slots, (n, L); or a function."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SlateLog:
    """Slates of a log: the arm in each slot, the probability that it had, and the rewards.

    >>> log = SlateLog(propensities=[[0.5, 0.25], [0.5, 0.5]], rewards=[[1, 0], [0, 1]])
    >>> len(log), log.slots
    (2, 2)
    """

    propensities: Floats
    """The probability that the log's policy gave to the arm of each slot, given the arms of earlier slots: (n, L)."""
    rewards: Floats
    """Of each slot, (n, L), or of each slate, (n,)."""
    filled: NDArray[np.bool_] | None = None
    """Which slots each slate has, (n, L); None if all slates have all slots."""
    arms: NDArray[np.str_] | None = None
    """The name of the arm in each slot, (n, L), for targets that need it; "" where a slot is not filled."""

    def __post_init__(self) -> None:
        rewards = np.asarray(self.rewards)
        set_validated(
            self,
            propensities=checked("propensities", self.propensities, 2),
            rewards=checked("rewards", self.rewards, 1 if rewards.ndim == 1 else 2),
        )
        shape = self.propensities.shape
        if not all(shape):
            raise InvalidInput(f"a log of slates needs at least one slate and one slot; got shape {shape}")
        if self.rewards.shape not in (shape, shape[:1]):
            raise InvalidInput(
                f"rewards must have shape {shape} or {shape[:1]}, like propensities; got {rewards.shape}"
            )
        if self.filled is not None:
            set_validated(self, filled=np.asarray(self.filled, dtype=np.bool_))
        for name in ("filled", "arms"):
            values = getattr(self, name)
            if values is not None and values.shape != shape:
                raise InvalidInput(f"{name} must have shape {shape}, like propensities; got {values.shape}")
        wrong = ~((self.propensities > 0.0) & (self.propensities <= 1.0)) & self._filled
        if wrong.any():
            slate, slot = np.argwhere(wrong)[0]
            raise InvalidInput(
                f"propensities must be above 0 and at most 1; got {self.propensities[slate, slot]} in slate {slate}, "
                f"slot {slot}"
            )

    def __len__(self) -> int:
        return len(self.propensities)

    @property
    def slots(self) -> int:
        """Slots of the slate that has most."""
        return int(self.propensities.shape[1])

    @property
    def _filled(self) -> NDArray[np.bool_]:
        return np.ones(self.propensities.shape, dtype=np.bool_) if self.filled is None else self.filled

    def weights(self, target: SlateTarget) -> Floats:
        """W of each slot, (n, L): 1 where a slot is not filled, so that it changes no estimate."""
        given = checked("target", target(self) if callable(target) else np.asarray(target), 2)
        if given.shape != self.propensities.shape:
            raise InvalidInput(
                f"target must have the probability of the logged arm of each slot, shape {self.propensities.shape}; "
                f"got {given.shape}"
            )
        wrong = ~((given >= 0.0) & (given <= 1.0)) & self._filled
        if wrong.any():
            slate, slot = np.argwhere(wrong)[0]
            raise InvalidInput(f"target must be at least 0 and at most 1; got {given[slate, slot]} in slate {slate}")
        return np.divide(given, self.propensities, out=np.ones(given.shape), where=self._filled)
