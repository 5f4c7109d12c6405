"""Read logs in Vowpal Wabbit's dsjson format, which has one JSON object per line."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np

from glbandits.common.arrays import Ints
from glbandits.common.errors import MAX_ABS, InvalidInput
from glbandits.evaluation.logs.arm_features import ArmFeatures, RowArms
from glbandits.evaluation.logs.array_checks import PROBABILITY_ROUNDING
from glbandits.evaluation.logs.logged_data import (
    BLOCK,
    MAX_DENSE_FEATURES,
    MAX_SPARSE_NUMBERS,
    DisplayedLog,
    LoggedData,
    block_size,
)
from glbandits.evaluation.logs.reward_checks import AUTO_LINK, inferred_link
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.features import Hashing
from glbandits.maths.links import Link, find_link
from glbandits.maths.sparse_rows import joined_rows

PROPENSITY_TOLERANCE = 1e-6
"""Absolute tolerance between two fields with the same propensity: some are rounded to single precision."""


@dataclass(frozen=True, kw_only=True)
class DsjsonCounts:
    """Numbers of lines of a dsjson file by their type."""

    decisions: int = 0
    """Decisions that were shown: the rows of the log."""
    others: int = 0
    """Lines without a decision, such as rewards of unknown decisions."""
    not_activated: int = 0
    """Decisions that were not shown to a user (`_skipLearn`)."""


Probability: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]


class _Event(msgspec.Struct, frozen=True):
    """A line of the file: a decision if it has a context, or else another event."""

    context: dict[str, Any] | None = msgspec.field(name="c", default=None)
    ranking: list[int] = msgspec.field(name="a", default_factory=list)
    """Actions, counted from 1. The first is the chosen one."""
    probabilities: list[Probability] = msgspec.field(name="p", default_factory=list)
    """The probability of each action of the ranking."""
    label_action: int | None = msgspec.field(name="_label_Action", default=None)
    label_probability: float | None = msgspec.field(name="_label_probability", default=None)
    cost: float | None = msgspec.field(name="_label_cost", default=None)
    outcomes: Any = msgspec.field(name="_outcomes", default=None)
    """The decisions for several slots."""
    dropped: Probability = msgspec.field(name="pdrop", default=0.0)
    """The probability with which such a row was dropped from the log."""
    skip_learn: Any = msgspec.field(name="_skipLearn", default=False)

    @property
    def is_shown(self) -> bool:
        """Whether the line is a decision that was shown to a user."""
        return self.context is not None and not self.skip_learn

    @property
    def actions(self) -> list[Any]:
        return (self.context or {})["_multi"]  # type: ignore[no-any-return]

    @property
    def shared(self) -> dict[str, Any]:
        return {name: value for name, value in (self.context or {}).items() if name != "_multi"}

    @property
    def chosen(self) -> int:
        """The chosen action, counted from 0."""
        return (self.ranking[0] if self.ranking else self.label_action or 0) - 1

    @property
    def propensity(self) -> float:
        return self.probabilities[0] if self.probabilities else self.label_probability or 0.0

    @property
    def reward(self) -> float:
        return 0.0 - (self.cost or 0.0)  # -x would turn 0.0 into -0.0

    @property
    def has_all_probabilities(self) -> bool:
        """Whether the line has the probability of each action."""
        return len(self.ranking) == len(self.probabilities) == len(self.actions)

    def check(self, link: Link) -> None:
        """Raise InvalidInput unless this is a valid decision for one slot."""
        actions = (self.context or {}).get("_multi")
        if not isinstance(actions, list) or not actions:
            raise InvalidInput("c must be an object with a non-empty list of actions, _multi")
        if "_slots" in (self.context or {}) or self.outcomes is not None:
            raise InvalidInput("the line has a decision for several slots; only one slot is supported. Delete the line")
        if not 0 <= self.chosen < len(actions):
            raise InvalidInput(f"the first of a must be an action from 1 to {len(actions)}; got {self.chosen + 1}")
        if not 0.0 < self.propensity <= 1.0:
            raise InvalidInput(f"the first of p must be a probability above 0 and at most 1; got {self.propensity}")
        if self.cost is None or abs(self.cost) > MAX_ABS:
            raise InvalidInput(f"_label_cost must be a number between -{MAX_ABS:g} and {MAX_ABS:g}; got {self.cost}")
        link.check_reward(self.reward)
        if self.label_action not in (None, self.chosen + 1):
            raise InvalidInput(f"_label_Action must be the first of a, {self.chosen + 1}; got {self.label_action}")
        label = self.propensity if self.label_probability is None else self.label_probability
        if abs(self.propensity - label) > PROPENSITY_TOLERANCE:
            raise InvalidInput(f"_label_probability must be the first of p, {self.propensity}; got {label}")
        if len(self.ranking) > len(actions) or (self.ranking and 0 < len(self.probabilities) != len(self.ranking)):
            raise InvalidInput(
                f"a and p must have as many entries, at most the {len(actions)} actions of _multi; got "
                f"{len(self.ranking)} and {len(self.probabilities)}"
            )
        if self.has_all_probabilities:
            if set(self.ranking) != set(range(1, len(actions) + 1)):
                raise InvalidInput(f"a must rank each of the {len(actions)} actions once; got {self.ranking}")
            if abs(sum(self.probabilities) - 1.0) > PROBABILITY_ROUNDING:
                raise InvalidInput(f"p must sum to 1 over the {len(actions)} actions; got {self.probabilities}")


_decode_event = msgspec.json.Decoder(_Event).decode


class DsjsonLog(DisplayedLog):
    """A log in a dsjson file. Each iteration reads the file, one block of lines at a time.

    The reward is the negated cost. The chosen action is the first of `a`, and its propensity the first of `p`; without
    these fields, `_label_Action` and `_label_probability` are used. Rows have the probabilities of all arms if `a` and
    `p` list all actions in every decision. The constructor validates all lines, except for their features, which are
    validated when they are read.
    """

    arm_names = None
    feature_map = None

    def __init__(self, path: Path, hashing: Hashing, link: str | Link, *, sparse: bool = False) -> None:
        self._path, self._hashing, self.sparse = path, hashing, sparse
        valid = find_link(inferred_link(link, are_binary=False))
        self.counts, self._max_arms, self._has_probabilities, binary = _first_pass(path, valid)
        self._link = inferred_link(link, are_binary=binary)

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return self._hashing.width

    def __len__(self) -> int:
        return self.counts.decisions

    def _values(self) -> dict[str, object]:
        return super()._values() | {"arms": f"up to {self._max_arms}"}

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        """Yield all decisions in order, in blocks of at most `size` rows."""
        size = block_size(size, self._max_arms, 0 if self.sparse else self.dim)
        decisions: list[_Event] = []
        features: list[Any] = []
        numbers = 0
        for decision, arms in self._decisions():
            decisions.append(decision)
            features.append(arms)
            numbers += 2 * arms.indices.size if self.sparse else 0
            if len(decisions) == size or numbers > MAX_SPARSE_NUMBERS:
                yield self._logged(decisions, features)
                decisions, features, numbers = [], [], 0
        if decisions:
            yield self._logged(decisions, features)

    def _decisions(self) -> Iterator[tuple[_Event, Any]]:
        """Decisions that were shown, and the features of their actions, dense or sparse."""
        hash_features = self._hashing.rows if self.sparse else self._hashing.vectors
        for line, event in _events(self._path):
            if event.is_shown:
                with _locate_errors(self._path, line):
                    features = hash_features(event.shared, event.actions)
                yield event, features

    def _arms(self, features: list[Any], counts: Ints) -> ArmFeatures:
        if self.sparse:
            return SparseArms(joined_rows(features), counts, self.dim, max_arms=self._max_arms)
        arms = np.zeros((len(features), self._max_arms, self.dim))
        for row, vectors in enumerate(features):
            arms[row, : len(vectors)] = vectors
        return RowArms(arms, counts)

    def _logged(self, decisions: list[_Event], features: list[Any]) -> LoggedData:
        counts = np.array([len(decision.actions) for decision in decisions])
        probabilities = np.zeros((len(decisions), self._max_arms)) if self._has_probabilities else None
        if probabilities is not None:
            for row, decision in enumerate(decisions):
                probabilities[row, np.array(decision.ranking) - 1] = decision.probabilities
        return LoggedData(
            chosen=np.array([decision.chosen for decision in decisions]),
            rewards=np.array([decision.reward for decision in decisions]),
            propensities=np.array([decision.propensity for decision in decisions]),
            probabilities=probabilities,
            arms=self._arms(features, counts),
            link=self._link,
        )


def read_dsjson(
    path: str | PathLike[str],
    *,
    hashing: Hashing | None = None,
    link: str | Link = AUTO_LINK,
    sparse: bool | None = None,
) -> DsjsonLog:
    """Read a log in Vowpal Wabbit's dsjson format. The features of actions are hashed.

    The log may be larger than memory. Lines without a decision are counted (see `DsjsonLog.counts`) and skipped.

    Args:
        path: a file with one JSON object per line.
        hashing: how features are hashed; by default to 256 features.
        link: defines the valid rewards. By default "logistic" for costs of -1 and 0, which are rewards of 1 and 0, else
            "identity".
        sparse: whether arms are `SparseArms`, so that time and memory do not depend on the number of features. Policies
            then use their sparse form. By default, above 4,096 features.
    """
    if not Path(path).is_file():
        raise InvalidInput(f"{path} must be a file with one JSON object per line; there is no such file")
    hashing = Hashing() if hashing is None else hashing
    sparse = hashing.width > MAX_DENSE_FEATURES if sparse is None else bool(sparse)
    return DsjsonLog(Path(path).absolute(), hashing, link, sparse=sparse)


def is_dsjson(path: Path) -> bool:
    """Whether the first object of a file is a line of a dsjson log: a decision or a later reward."""
    try:
        with path.open("rb") as file:
            event = msgspec.json.decode(next((line for line in file if line.strip()), b"{}"))
    except (OSError, msgspec.DecodeError):
        return False
    if not isinstance(event, dict):
        return False
    context = event.get("c")
    is_reward = "EventId" in event and "RewardValue" in event and "reward" not in event
    return is_reward or (isinstance(context, dict) and "_multi" in context)


def _events(path: Path) -> Iterator[tuple[int, _Event]]:
    """The events of the lines, with line numbers that start at 1."""
    with path.open("rb") as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                yield line, _decode_event(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise InvalidInput(
                    f"line {line} of {path.name}: the line must be a JSON object in dsjson format; got {text[:60]!r}: "
                    f"{error}. Delete the line if it is truncated"
                ) from None


@contextmanager
def _locate_errors(path: Path, line: int) -> Iterator[None]:
    """Prefix errors with the file and the line."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"line {line} of {path.name}: {error}", field=error.field) from None


def _first_pass(path: Path, link: Link) -> tuple[DsjsonCounts, int, bool, bool]:
    """Validate all lines.

    Return their counts, the largest number of actions, whether all decisions have all probabilities, and whether their
    rewards are 0 and 1.
    """
    decisions = others = not_activated = max_arms = 0
    complete, rewards = True, set[float]()
    first_pdrop = None
    for line, event in _events(path):
        if not event.is_shown:
            not_activated += event.context is not None
            others += event.context is None
            continue
        with _locate_errors(path, line):
            event.check(link)
            if first_pdrop is not None and event.dropped != first_pdrop:
                raise InvalidInput(
                    f"pdrop must be the same on all lines, because rows have no weights; got {event.dropped} after "
                    f"{first_pdrop}. Evaluate the lines of each pdrop separately"
                )
        first_pdrop, max_arms, decisions = event.dropped, max(max_arms, len(event.actions)), decisions + 1
        complete &= event.has_all_probabilities
        if len(rewards) < 3:
            rewards.add(event.reward)
    if not decisions:
        raise InvalidInput(
            f"{path} must have decisions; got {others} other lines and {not_activated} decisions that were not shown"
        )
    counts = DsjsonCounts(decisions=decisions, others=others, not_activated=not_activated)
    return counts, max_arms, complete, rewards == {0.0, 1.0}
