"""Targets: the policies that a log is asked about. A target gives every arm of every row a probability."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numba import types

from glbandits.bandit import Bandit
from glbandits.bandit.entries import policy_recipe
from glbandits.compilation import Recipe, entry_point
from glbandits.errors import InvalidInput, check_int, lookup
from glbandits.evaluation.arm_features import FixedArms, checked
from glbandits.evaluation.logged_data import LoggedData
from glbandits.evaluation.sparse_arms import SparseArms
from glbandits.evaluation.sparse_loops import sparse_frozen_recipe
from glbandits.features import FeatureMap, Features
from glbandits.maths.links import Link, LinkFunctions, find_link
from glbandits.maths.philox import generator
from glbandits.numba_support import GENERATOR, READ_CUBE, READ_INTS, READ_VECTOR, VECTOR, borrowed
from glbandits.policy import Policy
from glbandits.policy.compiled_calls import checked_arm, checked_bool, policy_functions
from glbandits.records import Floats, Generator, Ints, set_validated
from glbandits.sparse_policies import sparse_form

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


class FrozenTarget:
    """A Bandit as it is: it decides, and learns nothing.

    Where its policy has no exact probabilities, one decision is drawn for each row and has probability 1. That
    has no bias either, and more variance.
    """

    def __init__(self, bandit: Bandit, seed: int = 0) -> None:
        policy = sparse_form(bandit.policy, bandit.dim) if bandit.sparse else bandit.policy
        self._dim, self._state, self._settings = bandit.dim, bandit.state, policy.packed_settings(bandit.dim)
        self._sparse, recipe = bandit.sparse, sparse_frozen_recipe if bandit.sparse else frozen_recipe
        self._features = bandit.features
        self._rng = generator(check_int("seed", seed, at_least=0))
        self._fill = entry_point(recipe, policy.implementation(bandit.dim), find_link(policy.link)).compiled()

    def probabilities(self, block: LoggedData, first: int) -> Floats:  # noqa: ARG002, D102
        if block.dim != self._dim:
            raise InvalidInput(f"the bandit was made for {self._dim} features; the log's arms have {block.dim}")
        if block.sparse != self._sparse:
            kinds = ("sparse", "dense") if self._sparse else ("dense", "sparse")
            raise InvalidInput(
                f"the bandit is {kinds[0]} and the arms of the log are {kinds[1]}. Read the log with "
                f"sparse={self._sparse}, or make the bandit with sparse={block.sparse}"
            )
        self._check_features(block.feature_map)
        out = np.zeros((len(block), block.arms.most))
        if isinstance(block.arms, FixedArms):
            fixed = block.arms.arms[np.newaxis]
            exact = self._fill(self._state, self._settings, fixed, block.arms.counts[:1], self._rng, out[:1])
            if exact:
                return np.repeat(out[:1], len(block), axis=0)
        arms = (block.arms.first_arms, *block.arms.arms) if isinstance(block.arms, SparseArms) else (block.features(),)
        self._fill(self._state, self._settings, *arms, block.arms.counts, self._rng, out)
        return out

    def _check_features(self, of_log: Features | None) -> None:
        mine = self._features
        if mine is not of_log and isinstance(mine, FeatureMap) and isinstance(of_log, FeatureMap) and mine != of_log:
            raise InvalidInput(
                "the bandit and the log have different feature maps. Open the log with the bandit's: "
                "open_log(..., features=bandit.features)"
            )


def frozen_recipe(policy: type[Policy], link: Link) -> Recipe:
    """A function that writes the probabilities of every row to `out`, and says whether they are exact."""
    choose, _, probabilities, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def fill(state: Floats, settings: Floats, arms: Floats, counts: Ints, rng: Generator, out: Floats) -> bool:
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        arms, exact = borrowed(arms), True
        for row in range(arms.shape[0]):
            here, filled = arms[row, : counts[row]], out[row, : counts[row]]
            exact = checked_bool(probabilities(state, named, here, functions, filled))
            if not exact:
                for arm in range(counts[row]):
                    filled[arm] = 0.0
                filled[checked_arm(choose(state, named, here, rng, functions), counts[row], name)] = 1.0
        return exact

    signature = types.boolean(VECTOR, READ_VECTOR, READ_CUBE, READ_INTS, GENERATOR, types.float64[:, ::1])
    return policy_recipe(fill, signature, policy, link, more=", frozen")


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
