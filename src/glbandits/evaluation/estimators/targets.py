"""Targets: policies that are evaluated. A target gives each arm of each row a probability."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from glbandits.bandit import Bandit
from glbandits.common.arrays import Floats, Ints, set_validated
from glbandits.common.errors import InvalidInput, lookup
from glbandits.common.user_code import described_error
from glbandits.evaluation.estimators.frozen_agent import FrozenAgent
from glbandits.evaluation.estimators.frozen_target import FrozenTarget
from glbandits.evaluation.logs.arm_features import check_array
from glbandits.evaluation.logs.hidden_features import HiddenFeatures
from glbandits.evaluation.logs.log_slice import of_part
from glbandits.evaluation.logs.logged_data import Log, LoggedData
from glbandits.features.kinds.categorical import normalised
from glbandits.policies.agents import Agent, PlayingAgent, is_agent, learner_of
from glbandits.policies.contract import Policy

ARM_PREFIX, COLUMN_PREFIX = "arm:", "column:"
"""Prefixes of the name of an arm, and of a column with proposed arms, in the text of a target."""
LISTED_ARMS = 10
"""Maximum number of arms that a message lists."""
TOLERANCE = 1e-6
"""Maximum deviation of the sum of the probabilities of a row from 1."""


@runtime_checkable
class Target(Protocol):
    """A policy that does not learn while it is evaluated.

    A target that draws decisions has a method `begin_part(part)`, with which it takes other random numbers for each
    part of a log. So its decisions do not depend on who reads the part.
    """

    def probabilities(self, block: LoggedData, first_row: int) -> Floats:
        """Return the probability of each arm in each row of a block, (m, max_arms).

        `first_row` is the index of the first row of the block in the log.
        """


TargetLike: TypeAlias = Target | Bandit | Agent | Floats | str | Callable[[LoggedData], Floats]


@dataclass(frozen=True)
class UniformTarget:
    """All arms of a row with the same probability."""

    def probabilities(self, block: LoggedData, first_row: int) -> Floats:  # noqa: ARG002
        if block.arms.same_arms:
            return np.full((len(block), block.arms.max_arms), 1.0 / block.arms.max_arms)
        shares: Floats = block.arm_mask / block.arms.counts[:, np.newaxis]
        return shares


@dataclass(frozen=True)
class AlwaysTarget:
    """Always the arm with this index in the row."""

    arm: int

    def probabilities(self, block: LoggedData, first_row: int) -> Floats:
        short = block.arms.counts <= self.arm
        if short.any():
            row = int(np.argmax(short))
            raise InvalidInput(
                f"arm must be an index of an arm of each row; got {self.arm} for row {first_row + row}, which has "
                f"{block.arms.counts[row]} arms"
            )
        probabilities = np.zeros((len(block), block.arms.max_arms))
        probabilities[:, self.arm] = 1.0
        return probabilities


@dataclass(frozen=True)
class OfferedArmTarget:
    """Always the arm of this name, in a log whose rows have different arms (`LoggedData.row_arm_names`).

    In rows that do not offer the arm, it decides as the logging policy did.
    """

    name: str

    def __str__(self) -> str:
        return f"the arm {self.name!r}"

    def indices(self, block: LoggedData) -> Ints:
        """Return the index of the arm in each row, (n,): -1 in rows that do not offer it."""
        if block.row_arm_names is None:
            raise InvalidInput(f"the arm {self.name!r} needs a log whose rows name their arms (row_arm_names)")
        return block.row_arm_names.find(self.name)

    def probabilities(self, block: LoggedData, first_row: int) -> Floats:
        indices = self.indices(block)
        probabilities = np.zeros((len(block), block.arms.max_arms))
        probabilities[np.arange(len(block)), indices] = 1.0
        absent = indices < 0
        if absent.any():
            logged = block.probabilities
            if logged is None:
                raise InvalidInput(
                    f"row {first_row + int(np.argmax(absent))} does not offer {self}. Such rows are decided as the "
                    "logging policy did, for which the log needs the probabilities of all arms. Log or estimate them, "
                    "or drop such rows",
                    field="Columns.probabilities",
                )
            probabilities[absent] = logged[absent]
        return probabilities


@dataclass(frozen=True)
class ColumnTarget(OfferedArmTarget):
    """The arm of this column (`LoggedData.proposed`): what another system would have chosen.

    In rows where the column is empty or names an arm that the row does not offer, it decides as the logging policy did.
    """

    def __str__(self) -> str:
        return f"the arm of column {self.name!r} (or it is missing)"

    def indices(self, block: LoggedData) -> Ints:
        return block.proposed[self.name]


@dataclass(frozen=True, eq=False)
class GivenTarget:
    """An array of probabilities, with a row for each row of the log: (n, K)."""

    given: Floats

    def __post_init__(self) -> None:
        set_validated(self, given=check_array("target", self.given, 2))

    def check_rows(self, rows: int) -> None:
        """Raise InvalidInput unless it has a row for each of the rows of a log."""
        if len(self.given) != rows:
            raise InvalidInput(f"target must have a row for each row of the log, {rows}; got shape {self.given.shape}")

    def of_part(self, part: Log, log: Log) -> "GivenTarget":
        """Return the rows of a part of the log."""
        self.check_rows(len(log))
        return GivenTarget(of_part(self.given, part, log))

    def probabilities(self, block: LoggedData, first_row: int) -> Floats:
        part: Floats = self.given[first_row : first_row + len(block)]
        return part


@dataclass(frozen=True, eq=False)
class ComputedTarget:
    """A function that computes probabilities from a block of the log."""

    function: Callable[[LoggedData], Floats]

    def probabilities(self, block: LoggedData, first_row: int) -> Floats:  # noqa: ARG002
        try:
            given = self.function(block)
        except Exception as error:
            raise InvalidInput(f"the target failed, a function of a block: {described_error(error)}") from error
        return check_array("the probabilities of the target", given, 2)


@dataclass(frozen=True, eq=False)
class ExploringTarget:
    """Another target, of which a share of the decisions is uniformly random."""

    target: Target
    exploration: float

    @classmethod
    def of(cls, target: Target, exploration: float) -> Target:
        """Return the target with this share of random decisions."""
        return cls(target, exploration) if exploration else target

    def begin_part(self, part: int) -> None:
        """Draw the decisions of this part of a log by random numbers of its own."""
        if hasattr(self.target, "begin_part"):
            self.target.begin_part(part)

    def probabilities(self, block: LoggedData, first_row: int) -> Floats:
        own = target_probabilities(self.target, block, first_row)
        random = UniformTarget().probabilities(block, first_row)
        mixed: Floats = (1.0 - self.exploration) * own + self.exploration * random
        return mixed


def as_target(target: TargetLike, log: Log, role: str = "target") -> Target:
    """Convert a Bandit, a trained agent, an array, a function, "uniform", "column:NAME" or an arm to a Target of a log.

    The name of an arm may have the prefix "arm:". `role` is the name of the argument in messages.
    """
    if isinstance(target, np.ndarray | list):
        target = GivenTarget(target)
    given: object = target
    if isinstance(target, GivenTarget):
        target.check_rows(len(log))
    if isinstance(target, Bandit):
        return FrozenTarget(target)
    if is_agent(target) and not isinstance(given, Policy):
        agent = cast(Agent, target)
        return FrozenAgent(PlayingAgent(agent, str(getattr(agent, "name", type(agent).__name__)), 0, rows="row"))
    if not isinstance(given, Policy) and (learner := learner_of(given)) is not None:
        raise InvalidInput(
            f"{role} must be an agent that has learned; got {learner.name}, which makes agents. Pass train(log, "
            f"{learner.name}), with a log of other decisions"
        )
    if isinstance(target, Target) and not isinstance(given, Policy | LoggedData):  # these have probabilities too
        return target
    if isinstance(target, str):
        return _named_target(target, log, role)
    if callable(target) and not isinstance(target, type):
        return ComputedTarget(target)
    raise InvalidInput(
        f"{role} must be a Bandit, an agent that has learned (train), an array of probabilities (rows, arms), a "
        f"function of a block, 'uniform', 'column:NAME' or the name of an arm; got {_kind(target)}"
    )


def _kind(target: object) -> str:
    return f"the class {target.__name__}" if isinstance(target, type) else type(target).__name__


def _named_target(text: str, log: Log, role: str) -> Target:
    """Return the target of "uniform", of "arm:NAME" or of the name of an arm."""
    if text == "uniform":
        return UniformTarget()
    indices = {name: index for index, name in enumerate(log.schema.names)}
    if text.startswith(COLUMN_PREFIX) and text not in indices:
        name, proposed = text.removeprefix(COLUMN_PREFIX), log.schema.proposed
        if name not in proposed:
            raise InvalidInput(
                f"{text} needs a log that was read with this column: open_log(..., Columns(proposed=({name!r},))); its "
                f"columns of proposed arms are {', '.join(proposed) or 'none'}"
            )
        return ColumnTarget(name)
    is_arm, name = text.startswith(ARM_PREFIX), text
    if is_arm and (text not in indices or text.removeprefix(ARM_PREFIX) in indices):
        name = text.removeprefix(ARM_PREFIX)
    if is_arm and not indices:
        raise InvalidInput(
            f"{text} needs a log whose arms have names. The arms of this log are only features, so evaluate it in "
            "Python, with the probabilities of all arms as the target"
        )
    same = [each for each in indices if normalised(each) == normalised(name)]
    name = same[0] if name not in indices and len(same) == 1 else name
    known = indices if is_arm else {"uniform": -1} | indices
    index = lookup("arm" if is_arm else role, name, known, listed=LISTED_ARMS)
    return AlwaysTarget(index) if log.arm_names is not None else OfferedArmTarget(name)


def may_read(target: Target, hidden: HiddenFeatures) -> bool:
    """Whether the decisions of a target may depend on features that are hidden in the log."""
    target = target.target if isinstance(target, ExploringTarget) else target
    if isinstance(target, ComputedTarget):
        first_row = 0
        for block in hidden.log.blocks():
            with_them = target.probabilities(block, first_row)
            if not np.array_equal(with_them, target.probabilities(hidden.without_features(block), first_row)):
                return True
            first_row += len(block)
        return False
    return not isinstance(target, UniformTarget | AlwaysTarget | OfferedArmTarget)


def target_probabilities(target: Target, block: LoggedData, first_row: int) -> Floats:
    """Return the target's probabilities of a block. Raises InvalidInput unless they are valid."""
    probabilities = target.probabilities(block, first_row)
    if isinstance(target, UniformTarget | AlwaysTarget):
        return probabilities
    if probabilities.shape != (len(block), block.arms.max_arms):
        raise InvalidInput(
            f"the probabilities of a target must have shape ({len(block)}, {block.arms.max_arms}): rows and arms; got "
            f"{probabilities.shape}"
        )
    sums = np.einsum("ra->r", probabilities)
    if (np.abs(sums - 1.0) <= TOLERANCE).all() and probabilities.min() >= 0.0 and block.arms.same_arms:
        return probabilities
    wrong = (
        ~(np.abs(sums - 1.0) <= TOLERANCE)
        | (probabilities < 0.0).any(axis=1)
        | ((probabilities > 0.0) & ~block.arm_mask).any(axis=1)
    )
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"the probabilities of a target must be at least 0 and sum to 1 over the {block.arms.counts[row]} arms of "
            f"a row; got {probabilities[row].tolist()} in row {first_row + row}"
        )
    return probabilities
