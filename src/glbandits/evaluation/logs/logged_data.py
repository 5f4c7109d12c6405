"""LoggedData: what was decided, with what probabilities, and what came of it. One record, checked once."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from glbandits.errors import InvalidInput, check_int
from glbandits.evaluation.logs.arm_features import (
    ArmFeatures,
    FixedArms,
    RowArms,
    Rows,
    checked,
    part_of,
    whole_numbers,
)
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.features import Features
from glbandits.maths.links import Link, find_link
from glbandits.maths.sparse_rows import SparseRows
from glbandits.records import Floats, Ints, set_validated

BLOCK = 65_536
"""Rows that are looked at together: enough for NumPy, and 60 MB of features at 20 arms and 6 features."""
LARGEST_DENSE = 4096
"""Features up to which the arms of a log are vectors by default. With more they are sparse rows."""
BLOCK_NUMBERS = 2**25
"""Features and probabilities that are looked at together, at most: 270 MB. Blocks of rows with many
arms or features are shorter."""
SPARSE_NUMBERS = 2**23
"""Indices and values of sparse rows that are looked at together, about: 67 MB, and as much to join them."""
ROUNDING = 1e-5
"""Relative tolerance for probabilities that were written in single precision or with six digits."""


@runtime_checkable
class Log(Protocol):
    """A log that can be read from its beginning, again and again, a block of rows at a time."""

    @property
    def dim(self) -> int:
        """Features of an arm."""

    @property
    def arm_names(self) -> tuple[str, ...] | None:
        """Names of the arms, where all rows have the same."""

    @property
    def feature_map(self) -> Features | None:
        """What made the features of the columns of a table; None if they were numbers from the start."""

    @property
    def sparse(self) -> bool:
        """Whether the arms are sparse rows, `SparseArms`."""

    def __len__(self) -> int:
        """How many rows there are."""

    def blocks(self, size: int = BLOCK) -> Iterator["LoggedData"]:
        """All rows in order, in blocks of at most so many."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LoggedData:
    """Rows of a log: the arms there were, the one that was chosen, its reward, and the probabilities of the arms.

    >>> import numpy as np
    >>> from glbandits.evaluation import FixedArms, LoggedData
    >>> log = LoggedData(
    ...     chosen=[0, 1, 1], rewards=[0, 1, 0], propensities=[0.5, 0.5, 0.5], arms=FixedArms(np.eye(2), rows=3)
    ... )
    >>> len(log), log.dim
    (3, 2)
    >>> LoggedData(
    ...     chosen=[0, 1], rewards=[0, 1], probabilities=[[0.75, 0.25], [0.5, 0.5]], arms=FixedArms(np.eye(2), rows=2)
    ... ).propensities.tolist()
    [0.75, 0.5]
    >>> LoggedData(chosen=[0, 2], rewards=[0, 1], propensities=[0.5, 0.5], arms=FixedArms(np.eye(2), rows=2))
    Traceback (most recent call last):
    glbandits.errors.InvalidInput: chosen must be the index of an arm in its row, 0 to 1 in row 1; got 2
    """

    chosen: Ints
    """Which of its arms each row chose, (n,): 0 is the first."""
    rewards: Floats
    """(n,)."""
    propensities: Floats | None = None
    """The probability that the log's policy gave to the chosen arm, (n,); None if it is not known. Taken from
    `probabilities` if those are given alone."""
    arms: ArmFeatures
    clusters: Ints | None = None
    """Rows with the same number were decided together, by one draw for a block of decisions, say: (n,)."""
    link: str | Link = "identity"
    """Tells which rewards there can be: identity any number, logistic and probit 0 to 1, log 0 and more."""
    arm_names: tuple[str, ...] | None = None
    """Names of the arms, where all rows have the same."""
    estimated: bool = False
    """Whether the propensities were estimated from the log itself."""
    probabilities: Floats | None = None
    """The probability that the log's policy gave to each arm of the row, (n, most), and 0 beyond its arms; None if only
    those of the chosen arms are known."""
    feature_map: Features | None = None
    """What made the features of the columns of a table; None if they were numbers from the start."""
    _features: Floats | None = field(default=None, init=False, repr=False)
    """What was made once, for those who ask again."""

    def __post_init__(self) -> None:
        if not isinstance(self.arms, ArmFeatures):
            raise InvalidInput(
                f"arms must be FixedArms, RowArms, CrossedArms or SparseArms; got {type(self.arms).__name__}"
            )
        n = len(self.arms)
        set_validated(self, chosen=whole_numbers("chosen", self.chosen), rewards=checked("rewards", self.rewards, 1))
        if self.propensities is not None:
            set_validated(self, propensities=checked("propensities", self.propensities, 1))
        if self.probabilities is not None:
            set_validated(self, probabilities=checked("probabilities", self.probabilities, 2))
        if self.clusters is not None:
            set_validated(self, clusters=whole_numbers("clusters", self.clusters))
        for name in ("chosen", "rewards", "propensities", "probabilities", "clusters"):
            values = getattr(self, name)
            if values is not None and len(values) != n:
                raise InvalidInput(f"{name} must have one entry for each of the {n} rows; got {len(values)}")
        self._check_chosen()
        self._check_propensities()
        self._check_probabilities()
        self._check_rewards()
        if self.arm_names is not None:
            set_validated(self, arm_names=tuple(map(str, self.arm_names)))
            if len(self.arm_names) != self.arms.most:
                raise InvalidInput(f"{self.arms.most} arms need as many names; got {len(self.arm_names)}")

    def _check_chosen(self) -> None:
        counts = self.arms.counts
        wrong = (self.chosen < 0) | (self.chosen >= counts)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidInput(
                f"chosen must be the index of an arm in its row, 0 to {counts[row] - 1} in row {row}; "
                f"got {self.chosen[row]}"
            )

    def _check_propensities(self) -> None:
        if self.propensities is None:
            return
        wrong = ~((self.propensities > 0.0) & (self.propensities <= 1.0))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidInput(
                f"propensities must be above 0 and at most 1; got {self.propensities[row]} in row {row}, and "
                f"{int(wrong.sum())} such in all. An arm that was chosen had a probability; if it is not known, leave "
                "propensities out and have them estimated"
            )

    def _check_probabilities(self) -> None:
        if self.probabilities is not None:
            check_probabilities(self.probabilities, self.arms, self.chosen, self.propensities)
            if self.propensities is None:
                set_validated(self, propensities=self.probabilities[np.arange(len(self)), self.chosen])

    def _check_rewards(self) -> None:
        link = find_link(self.link)
        wrong = ~((self.rewards >= link.lowest_reward) & (self.rewards <= link.highest_reward))
        if wrong.any():
            row = int(np.argmax(wrong))
            try:
                link.check_reward(float(self.rewards[row]))
            except InvalidInput as error:
                raise InvalidInput(f"row {row}: {error}") from None

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, rows: Rows) -> "LoggedData":
        """Some of the rows."""
        return part_of(
            self,
            chosen=self.chosen[rows],
            rewards=self.rewards[rows],
            propensities=None if self.propensities is None else self.propensities[rows],
            probabilities=None if self.probabilities is None else self.probabilities[rows],
            clusters=None if self.clusters is None else self.clusters[rows],
            arms=self.arms[rows],
            _features=None if self._features is None else self._features[rows],
        )

    @property
    def dim(self) -> int:
        """Features of an arm."""
        return self.arms.dim

    @property
    def sparse(self) -> bool:
        """Whether the arms are sparse rows."""
        return isinstance(self.arms, SparseArms)

    @property
    def there(self) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """Which arms each row has, (n, most)."""
        return np.arange(self.arms.most) < self.arms.counts[:, np.newaxis]

    def features(self) -> Floats:
        """Of all arms of all rows, (n, most, dim). Raises InvalidInput if they are sparse rows."""
        if self._features is None:
            set_validated(self, _features=self.arms.features())
        assert self._features is not None
        return self._features

    def blocks(self, size: int = BLOCK) -> Iterator["LoggedData"]:
        """All rows in order, in blocks of at most so many."""
        size = rows_together(size, self.arms.most, 0 if self.sparse else self.dim)
        for start in range(0, len(self), size):
            yield self[start : start + size]


def rows_together(size: int, most: int, dim: int) -> int:
    """The rows of a block: so many, or fewer if their features and probabilities were more than `BLOCK_NUMBERS`."""
    return max(1, min(check_int("size", size, at_least=1), BLOCK_NUMBERS // max(1, most * (dim + 1))))


def chosen_features(block: LoggedData) -> Floats:
    """The features of the chosen arms, (m, dim), of a log whose rows are not sparse."""
    if isinstance(block.arms, FixedArms):
        return block.arms.arms[block.chosen]
    picked: Floats = block.features()[np.arange(len(block)), block.chosen]
    return picked


def chosen_rows(block: LoggedData) -> SparseRows:
    """The features of the chosen arms of a log with sparse rows."""
    assert isinstance(block.arms, SparseArms)
    return block.arms.chosen(block.chosen)


def check_probabilities(
    probabilities: Floats,
    arms: ArmFeatures,
    chosen: Ints,
    propensities: Floats | None,
    *,
    name: str = "probabilities",
    first: int = 0,
    mend: str = "",
) -> None:
    """Raise InvalidInput unless each row is a distribution over its arms that agrees with the propensities.

    `name`, `first` (the number of the first row) and `mend` (what to do about it) are for the error.
    """
    if probabilities.shape != (len(arms), arms.most):
        raise InvalidInput(
            f"{name} must have a row for each of the {len(arms)} rows and a column for each of the {arms.most} arms; "
            f"got shape {probabilities.shape}"
        )
    own = probabilities[np.arange(len(chosen)), chosen]
    within = (probabilities >= 0.0).all(axis=1)
    if isinstance(arms, RowArms):
        within &= ((probabilities == 0.0) | (np.arange(arms.most) < arms.counts[:, np.newaxis])).all(axis=1)
    wrong = {
        "be at least 0, and 0 beyond the arms of the row": ~within,
        "sum to 1 over all arms of the row": ~(np.abs(probabilities.sum(axis=1) - 1.0) <= ROUNDING),
        "be above 0 for the chosen arm": ~(own > 0.0),
    }
    if propensities is not None:
        wrong["equal the propensity for the chosen arm"] = ~(np.abs(own - propensities) <= ROUNDING * propensities)
    for need, rows in wrong.items():
        if rows.any():
            row = int(np.argmax(rows))
            got = f"{probabilities[row].tolist()!r:.80}, where arm {chosen[row]} was chosen"
            if propensities is not None:
                got += f" with propensity {propensities[row]}"
            raise InvalidInput(f"{name}, row {first + row}: they must {need}; got {got}{mend}")
