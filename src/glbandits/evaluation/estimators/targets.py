"""Targets: the policies that a log is asked about. A target gives every arm of every row a probability."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from glbandits.bandit import Bandit
from glbandits.errors import InvalidInput, check_int, lookup
from glbandits.evaluation.estimators.frozen_target import FrozenTarget
from glbandits.evaluation.logs.arm_features import checked
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.policy import Policy
from glbandits.records import Floats, set_validated

TOLERANCE = 1e-6
"""How far the probabilities of a row may be from a sum of 1."""


@runtime_checkable
class Target(Protocol):
    """A policy that does not learn while it is evaluated."""

    def probabilities(self, block: LoggedData, first: int) -> Floats:
        """The probability of every arm in every row of a block, (m, most); `first` is the number of its first row."""


AnyTarget: TypeAlias = Target | Bandit | Floats | str | Callable[[LoggedData], Floats]


@dataclass(frozen=True)
class UniformTarget:
    """Every arm of a row alike."""

    def probabilities(self, block: LoggedData, first: int) -> Floats:  # noqa: ARG002, D102
        shares: Floats = block.there / block.arms.counts[:, np.newaxis]
        return shares


@dataclass(frozen=True)
class AlwaysTarget:
    """Always the same arm, by its place in the row."""

    arm: int

    def __post_init__(self) -> None:
        set_validated(self, arm=check_int("arm", self.arm, at_least=0))

    def probabilities(self, block: LoggedData, first: int) -> Floats:  # noqa: D102
        short = block.arms.counts <= self.arm
        if short.any():
            row = int(np.argmax(short))
            raise InvalidInput(f"row {first + row} has no arm {self.arm}; it has {block.arms.counts[row]} arms")
        probabilities = np.zeros((len(block), block.arms.most))
        probabilities[:, self.arm] = 1.0
        return probabilities


@dataclass(frozen=True, eq=False)
class GivenTarget:
    """Probabilities that are given, a row for each row of the log: (n, K)."""

    given: Floats

    def __post_init__(self) -> None:
        set_validated(self, given=checked("target", self.given, 2))

    def probabilities(self, block: LoggedData, first: int) -> Floats:  # noqa: D102
        part: Floats = self.given[first : first + len(block)]
        if part.shape != (len(block), block.arms.most):
            raise InvalidInput(
                f"target must have a row for each row of the log and a column for each of its {block.arms.most} arms; "
                f"got shape {self.given.shape}"
            )
        return part


@dataclass(frozen=True, eq=False)
class ComputedTarget:
    """Probabilities that a function computes from a block of the log."""

    function: Callable[[LoggedData], Floats]

    def probabilities(self, block: LoggedData, first: int) -> Floats:  # noqa: ARG002, D102
        return checked("what the target gives", self.function(block), 2)


def as_target(target: AnyTarget, arm_names: tuple[str, ...] | None = None) -> Target:
    """A target from what a user may write: a Bandit, an array, a function, "uniform", or the name of an arm."""
    given: object = target
    if isinstance(target, Bandit):
        return FrozenTarget(target)
    if isinstance(target, Target) and not isinstance(given, Policy | LoggedData):  # which have probabilities too
        return target
    if isinstance(target, str):
        names = {"uniform": -1} | {name: place for place, name in enumerate(arm_names or ())}
        place = lookup("target", target, names)
        return UniformTarget() if place < 0 else AlwaysTarget(place)
    if isinstance(target, np.ndarray | list):
        return GivenTarget(np.asarray(target))
    if callable(target) and not isinstance(target, type):
        return ComputedTarget(target)
    raise InvalidInput(
        "a target is a Bandit, an array of probabilities (rows, arms), a function of a block, 'uniform' or the name of "
        f"an arm; got {type(target).__name__}"
    )


def checked_probabilities(target: Target, block: LoggedData, first: int) -> Floats:
    """The target's probabilities for a block; an error where they are none."""
    probabilities = target.probabilities(block, first)
    if probabilities.shape != (len(block), block.arms.most):
        raise InvalidInput(
            f"a target must give {len(block)} rows and {block.arms.most} arms a probability; got shape "
            f"{probabilities.shape}"
        )
    wrong = (
        (np.abs(probabilities.sum(axis=1) - 1.0) > TOLERANCE)
        | (probabilities < 0.0).any(axis=1)
        | ((probabilities > 0.0) & ~block.there).any(axis=1)
    )
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"the probabilities of a row must be at least 0 and sum to 1, over its {block.arms.counts[row]} arms; "
            f"got {probabilities[row].tolist()} in row {first + row}"
        )
    return probabilities
