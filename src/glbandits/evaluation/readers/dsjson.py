"""Read logs in Vowpal Wabbit's dsjson format, which has one JSON object per line."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import polars as pl
from polars.io.plugins import register_io_source

from glbandits.common.errors import MAX_ABS, InvalidInput
from glbandits.evaluation.logs.array_checks import PROBABILITY_ROUNDING
from glbandits.evaluation.logs.logged_data import BLOCK, MAX_DENSE_FEATURES
from glbandits.evaluation.logs.reward_checks import AUTO_LINK, inferred_link
from glbandits.evaluation.readers.columns import Columns
from glbandits.evaluation.readers.pair_features import HashedTexts
from glbandits.evaluation.readers.table_layout import TableLayout
from glbandits.evaluation.readers.table_log import TableLog
from glbandits.features import Hashing
from glbandits.maths.links import Link, find_link

PROPENSITY_TOLERANCE = 1e-6
"""Absolute tolerance between two fields with the same propensity: some are rounded to single precision."""
COLUMN_TYPES: dict[str, Any] = {
    "line": pl.Int64,
    "arm": pl.Int64,
    "reward": pl.Float64,
    "propensity": pl.Float64,
    "probabilities": pl.List(pl.Float64),
    "shared": pl.String,
    "actions": pl.List(pl.String),
}
SCHEMA = pl.Schema(COLUMN_TYPES)
"""The columns of the table of decisions."""


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


class DsjsonLog(TableLog):
    """A log in a dsjson file.

    The reward is the negated cost. The chosen action is the first of `a`, and its propensity the first of `p`; without
    these fields, `_label_Action` and `_label_probability` are used. Rows have the probabilities of all arms if `a` and
    `p` list all actions in every decision. All lines were validated on opening, except for their features, which are
    validated when they are read.
    """

    counts: DsjsonCounts

    def _values(self) -> dict[str, object]:
        return super()._values() | {"arms": f"up to {self.schema.max_arms}"}


@dataclass(frozen=True)
class _Decisions:
    """The decisions of a file as tables, for polars."""

    path: Path
    has_probabilities: bool

    def __call__(
        self, names: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        events = ((line, event) for line, event in _events(self.path) if event.is_shown)
        while part := list(islice(events, min(batch or BLOCK, BLOCK if rows is None else rows))):
            frame = pl.DataFrame([self._row(*each) for each in part], schema=SCHEMA, orient="row")
            frame = frame if predicate is None else frame.filter(predicate)
            yield frame if names is None else frame.select(names)
            rows = None if rows is None else rows - len(part)
            if rows == 0:
                return

    def _row(self, line: int, event: _Event) -> tuple[Any, ...]:
        probabilities = None
        if self.has_probabilities:
            probabilities = [0.0] * len(event.actions)
            for action, probability in zip(event.ranking, event.probabilities, strict=True):
                probabilities[action - 1] = probability
        shared, actions = _as_json(event.shared), [_as_json(action) for action in event.actions]
        return line, event.chosen, event.reward, event.propensity, probabilities, shared, actions


def _as_json(features: Any) -> str:
    return msgspec.json.encode(features).decode()


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
    file = Path(path).absolute()
    counts, max_arms, has_probabilities, binary = _first_pass(file, find_link(inferred_link(link, are_binary=False)))
    columns = Columns(features="actions", probabilities="probabilities" if has_probabilities else None)
    layout = TableLayout(
        columns=columns,
        link=inferred_link(link, are_binary=binary),
        rows=counts.decisions,
        max_arms=max_arms,
        pairs=HashedTexts(hashing, file.name),
        sparse=sparse,
    )
    table = register_io_source(_Decisions(file, has_probabilities), schema=SCHEMA)
    log = DsjsonLog(table, layout)
    log.counts = counts
    return log


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
