"""Log and LoggedData: decisions with their arms, propensities and rewards, validated once."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from glbandits.common.arrays import Floats, Ints, set_validated
from glbandits.common.display.displayed import Displayed
from glbandits.common.errors import InvalidInput, check_int
from glbandits.evaluation.logs.arm_features import (
    ArmFeatures,
    FixedArms,
    RowArmNames,
    RowIndex,
    check_array,
    check_int_array,
    copy_with,
)
from glbandits.evaluation.logs.array_checks import (
    check_chosen,
    check_known_propensities,
    check_probabilities,
    checked_payoffs,
    checked_proposed,
)
from glbandits.evaluation.logs.description import LogDescription
from glbandits.evaluation.logs.doubts import Doubt
from glbandits.evaluation.logs.log_statistics import describe_blocks
from glbandits.evaluation.logs.reward_checks import AUTO_LINK, are_binary, check_rewards, inferred_link, link_of
from glbandits.evaluation.logs.schema import Dates, LogSchema
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.features.transformer_features import Features
from glbandits.maths.links import Link, find_link
from glbandits.maths.sparse_rows import SparseRows

BLOCK = 65_536
"""Default number of rows of a block: 60 MB of features at 20 arms and 6 features."""
MAX_DENSE_FEATURES = 4096
"""Number of features above which the arms of a log are sparse rows by default."""
MAX_BLOCK_NUMBERS = 2**25
"""Maximum number of features and probabilities of a block: 270 MB. It shortens blocks with many arms or features."""


@runtime_checkable
class Log(Protocol):
    """A log that can be read repeatedly, one block of rows at a time."""

    @property
    def schema(self) -> LogSchema:
        """What the rows of the log have."""

    @property
    def dim(self) -> int:
        """Number of features of an arm."""

    @property
    def arm_names(self) -> tuple[str, ...] | None:
        """Names of the arms; None if rows have different arms."""

    @property
    def feature_map(self) -> Features | None:
        """The map from table columns to features; None if the log was built from numeric features."""

    @property
    def sparse(self) -> bool:
        """Whether the arms are `SparseArms`."""

    def __len__(self) -> int:
        """Number of rows."""

    def blocks(
        self, size: int = BLOCK, *, start: int = 0, stop: int | None = None, every: int = 1, features: bool = True
    ) -> Iterator["LoggedData"]:
        """Yield rows in order, in blocks that end at multiples of at most `size` rows.

        Args:
            size: maximum number of rows of a block.
            start: the first row that is wanted.
            stop: the row after the last one; by default all rows follow.
            every: of each block only rows whose index in the log is a multiple of it. A block may then be empty.
            features: whether features of arms are wanted. Without them, blocks have `UnreadArms`.
        """

    def for_workers(self) -> "Log":
        """Return the log in a form of which each worker reads its part without the rows before it."""


class DisplayedLog(Displayed):
    """Base class of logs: shows the numbers of rows, arms and features."""

    def _values(self: Any) -> dict[str, object]:
        schema = self.schema
        arms = "differ between rows" if schema.arm_names is None else len(schema.arm_names)
        values = {"rows": len(self), "arms": arms, "features": schema.dim, "link": find_link(schema.link).name}
        return values | ({"sparse": True} if schema.sparse else {})

    def describe(self: Any) -> LogDescription:
        """Describe the log in one pass: arms, rewards, propensities, columns, and what cannot be evaluated.

        `print` shows the description as tables.
        """
        return describe_blocks(self)

    def for_workers(self) -> Self:
        """Return the log in a form of which each worker reads its part without the rows before it."""
        return self


class StreamedLog(DisplayedLog):
    """Base class of logs that are read when their blocks are wanted."""

    schema: LogSchema

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return self.schema.dim

    @property
    def arm_names(self) -> tuple[str, ...] | None:
        """Names of the arms; None if rows have different arms."""
        return self.schema.arm_names

    @property
    def feature_map(self) -> Features | None:
        """The map from table columns to features; None if the log was built from numeric features."""
        return self.schema.feature_map

    @property
    def sparse(self) -> bool:
        """Whether the arms are `SparseArms`."""
        return self.schema.sparse

    def __len__(self) -> int:
        return self.schema.rows


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LoggedData(DisplayedLog):
    """Rows of a log: arms, chosen arms, rewards, and probabilities of the logging policy.

    >>> import numpy as np
    >>> from glbandits.evaluation import FixedArms, LoggedData
    >>> log = LoggedData(
    ...     chosen=[0, 1, 1], rewards=[0, 1, 0], propensities=[0.5, 0.5, 0.5], arms=FixedArms(np.eye(2), rows=3)
    ... )
    >>> log
    <LoggedData: rows 3, arms 2, features 2, link logistic, propensities logged>
    >>> LoggedData(
    ...     chosen=[0, 1], rewards=[0, 1], probabilities=[[0.75, 0.25], [0.5, 0.5]], arms=FixedArms(np.eye(2), rows=2)
    ... ).propensities.tolist()
    [0.75, 0.5]
    >>> LoggedData(chosen=[0, 2], rewards=[0, 1], propensities=[0.5, 0.5], arms=FixedArms(np.eye(2), rows=2))
    Traceback (most recent call last):
    glbandits.common.errors.InvalidInput: chosen must be the index of an arm in its row, 0 to 1 in row 1; got 2
    """

    chosen: Ints
    """Index of the chosen arm in each row, (n,)."""
    rewards: Floats
    """(n,)."""
    propensities: Floats | None = None
    """The probability that the logging policy gave to the chosen arm, (n,); None if unknown. If only `probabilities`
    are given, they define it."""
    arms: ArmFeatures
    clusters: Ints | None = None
    """Cluster of each row, (n,): rows of a cluster are not independent, such as decisions for one user."""
    link: str | Link = AUTO_LINK
    """Defines the valid rewards: any number for identity, 0 to 1 for logistic and probit, at least 0 for log. By
    default logistic if rewards are 0 and 1, else identity."""
    arm_names: tuple[str, ...] | None = None
    """Names of the arms; None if rows have different arms."""
    estimated: bool = False
    """Whether the propensities were estimated from the log itself."""
    probabilities: Floats | None = None
    """The probability that the logging policy gave to each arm, (n, max_arms), padded with 0; None if only those of the
    chosen arms are known. If all rows have the same two arms, `propensities` define them."""
    feature_map: Features | None = None
    """The map from table columns to features; None if the log was built from numeric features."""
    row_arm_names: RowArmNames | None = None
    """Names of the arms of each row, if rows have different arms and the arms have names."""
    proposed: Mapping[str, Ints] = field(default_factory=dict)
    """Index of the arm that another system would have chosen in each row, (n,), by the name of that system: -1 in rows
    without one. The target "column:NAME" chooses it."""
    other_rewards: Mapping[str, Floats] = field(default_factory=dict)
    """Other rewards of the same decisions by their names, (n,): NaN in rows that do not have them."""
    values: Floats | None = None
    """What a reward of 1 is worth, for each arm of each row, (n, max_arms); or for each arm, (max_arms,), if all rows
    have the same arms. Estimates are then payoffs: value * reward - cost."""
    costs: Floats | None = None
    """The cost of each arm, in the form of `values`; by default 0."""
    doubts: tuple[Doubt, ...] = ()
    """Doubts that the reader of the log found."""
    dates: Dates = ()
    """Dates of the rows, if they are in the order of a time."""
    link_inferred: bool = field(default=False, init=False, repr=False)
    """Whether the link was inferred from the rewards."""
    _features: Floats | None = field(default=None, init=False, repr=False)
    """Cache of `features()`."""

    def __post_init__(self) -> None:
        if not isinstance(self.arms, ArmFeatures):
            raise InvalidInput(
                f"arms must be FixedArms, RowArms, CrossedArms or SparseArms; got {type(self.arms).__name__}"
            )
        n = len(self.arms)
        set_validated(
            self, chosen=check_int_array("chosen", self.chosen), rewards=check_array("rewards", self.rewards, 1)
        )
        if self.link == AUTO_LINK:
            link = inferred_link(self.link, are_binary=are_binary(self.rewards))
            set_validated(self, link=link, link_inferred=True)
        if self.propensities is not None:
            set_validated(self, propensities=check_array("propensities", self.propensities, 1))
        if self.probabilities is not None:
            set_validated(self, probabilities=check_array("probabilities", self.probabilities, 2))
        if self.clusters is not None:
            set_validated(self, clusters=check_int_array("clusters", self.clusters))
        for name in ("chosen", "rewards", "propensities", "probabilities", "clusters", "row_arm_names"):
            values = getattr(self, name)
            if values is not None and len(values) != n:
                raise InvalidInput(f"{name} must have one entry for each of the {n} rows; got {len(values)}")
        set_validated(self, other_rewards={name: np.asarray(each) for name, each in self.other_rewards.items()})
        check_chosen(self.chosen, self.arms)
        set_validated(self, proposed=checked_proposed(self.proposed, self.arms))
        if self.propensities is not None:
            check_known_propensities(self.propensities)
        if self.probabilities is not None:
            check_probabilities(self.probabilities, self.arms, self.chosen, self.propensities)
            if self.propensities is None:
                set_validated(self, propensities=self.probabilities[np.arange(len(self)), self.chosen])
        self._complete_probabilities()
        values, costs = checked_payoffs(self.values, self.costs, self.arms)
        set_validated(self, values=values, costs=costs)
        check_rewards(self.rewards, find_link(self.link), lambda row: f"row {row}")
        if self.arm_names is not None:
            set_validated(self, arm_names=tuple(map(str, self.arm_names)))
            if len(self.arm_names) != self.arms.max_arms:
                raise InvalidInput(
                    f"arm_names must have one name for each of the {self.arms.max_arms} arms; got {len(self.arm_names)}"
                )

    def _complete_probabilities(self) -> None:
        """Set the probabilities if all rows have the same two arms, whose propensities define them."""
        has_two_arms = self.arms.same_arms and self.arms.max_arms == 2
        if has_two_arms and self.probabilities is None and self.propensities is not None:
            of_first = np.where(self.chosen == 0, self.propensities, 1.0 - self.propensities)
            set_validated(self, probabilities=np.stack([of_first, 1.0 - of_first], axis=1))

    def __len__(self) -> int:
        return len(self.chosen)

    def _values(self) -> dict[str, object]:
        arms = self.arms.max_arms if self.arms.same_arms else f"up to {self.arms.max_arms}"
        known = "none" if self.propensities is None else "estimated" if self.estimated else "logged"
        return super()._values() | {"arms": arms, "propensities": known}

    def __getitem__(self, rows: RowIndex) -> "LoggedData":
        """Select rows."""
        return copy_with(
            self,
            chosen=self.chosen[rows],
            rewards=self.rewards[rows],
            propensities=None if self.propensities is None else self.propensities[rows],
            probabilities=None if self.probabilities is None else self.probabilities[rows],
            clusters=None if self.clusters is None else self.clusters[rows],
            arms=self.arms[rows],
            row_arm_names=None if self.row_arm_names is None else self.row_arm_names[rows],
            proposed={name: arms[rows] for name, arms in self.proposed.items()},
            other_rewards={name: each[rows] for name, each in self.other_rewards.items()},
            values=None if self.values is None else self.values[rows],
            costs=None if self.costs is None else self.costs[rows],
            dates=(),
            _features=None if self._features is None else self._features[rows],
        )

    @property
    def schema(self) -> LogSchema:
        """What the rows have."""
        offered = () if self.row_arm_names is None else self.row_arm_names.names
        return LogSchema(
            rows=len(self),
            dim=self.dim,
            max_arms=self.arms.max_arms,
            names=self.arm_names or offered,
            same_arms=self.arms.same_arms,
            same_features=isinstance(self.arms, FixedArms),
            sparse=self.sparse,
            feature_map=self.feature_map,
            link=self.link,
            link_inferred=self.link_inferred,
            propensities=self.propensities is not None,
            probabilities=self.probabilities is not None,
            estimated=self.estimated,
            payoffs=self.values is not None,
            clusters=self.clusters is not None,
            proposed=tuple(self.proposed),
            other_rewards={name: link_of(values) for name, values in self.other_rewards.items()},
            doubts=self.doubts,
            dates=self.dates,
        )

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return self.arms.dim

    @property
    def sparse(self) -> bool:
        """Whether the arms are `SparseArms`."""
        return isinstance(self.arms, SparseArms)

    @property
    def arm_mask(self) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """Mask of the arms that each row has, (n, max_arms)."""
        return np.arange(self.arms.max_arms) < self.arms.counts[:, np.newaxis]

    @property
    def unit(self) -> str:
        """What estimates are means of: "payoff", or "reward" if the log has no values."""
        return "reward" if self.values is None else "payoff"

    @property
    def payoffs(self) -> Floats:
        """Value * reward - cost of the chosen arms, (n,); the rewards if the log has no values."""
        if self.values is None or self.costs is None:
            return self.rewards
        chosen = np.arange(len(self)), self.chosen
        payoffs: Floats = self.values[chosen] * self.rewards - self.costs[chosen]
        return payoffs

    def expected_payoffs(self, expected: Floats | float) -> Floats:
        """Convert expected rewards of all arms, (n, max_arms), to expected payoffs."""
        rewards = np.asarray(expected)
        return rewards if self.values is None or self.costs is None else self.values * rewards - self.costs

    def features(self) -> Floats:
        """Features of all arms of all rows, (n, max_arms, dim).

        Raises InvalidInput if the arms are sparse.
        """
        if self._features is None:
            set_validated(self, _features=self.arms.features())
        assert self._features is not None
        return self._features

    def blocks(
        self,
        size: int = BLOCK,
        *,
        start: int = 0,
        stop: int | None = None,
        every: int = 1,
        features: bool = True,  # noqa: ARG002  (they are in memory)
    ) -> Iterator["LoggedData"]:
        """Yield rows in order, as `Log.blocks` says."""
        size = block_size(size, self.arms.max_arms, 0 if self.sparse else self.dim)
        for first, last in block_bounds(size, start, len(self) if stop is None else min(stop, len(self))):
            yield self[first:last] if every == 1 else self[first + -first % every : last : every]


def trusted_rows(**values: Any) -> LoggedData:
    """Return LoggedData of arrays that a reader has checked, without checking them again."""
    block, missing = object.__new__(LoggedData), {}
    for each in fields(LoggedData):
        if each.name not in values:
            missing[each.name] = each.default_factory() if each.default_factory is not MISSING else each.default
    set_validated(block, **missing, **values)
    block._complete_probabilities()
    return block


def block_bounds(size: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the first row of each block and the row after its last one. Blocks end at multiples of `size`."""
    while start < stop:
        end = min(start - start % size + size, stop)
        yield start, end
        start = end


def block_size(size: int, max_arms: int, dim: int) -> int:
    """Return the rows of a block: `size`, or fewer to stay within `MAX_BLOCK_NUMBERS`."""
    return max(1, min(check_int("size", size, at_least=1), MAX_BLOCK_NUMBERS // max(1, max_arms * (dim + 1))))


def chosen_features(block: LoggedData) -> Floats:
    """Features of the chosen arms of dense rows, (m, dim)."""
    if isinstance(block.arms, FixedArms):
        return block.arms.arms[block.chosen]
    picked: Floats = block.features()[np.arange(len(block)), block.chosen]
    return picked


def chosen_rows(block: LoggedData) -> SparseRows:
    """Features of the chosen arms of a block with `SparseArms`."""
    assert isinstance(block.arms, SparseArms)
    return block.arms.chosen(block.chosen)
