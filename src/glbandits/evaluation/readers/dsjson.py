"""Read logs in Vowpal Wabbit's dsjson format, which has one JSON object per line."""

import weakref
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from glbandits.common.errors import MAX_ABS, InvalidInput
from glbandits.evaluation.logs.array_checks import PROBABILITY_ROUNDING
from glbandits.evaluation.logs.logged_data import BLOCK, MAX_DENSE_FEATURES
from glbandits.evaluation.logs.reward_checks import AUTO_LINK, inferred_link
from glbandits.evaluation.readers.columns import Columns
from glbandits.evaluation.readers.pair_features import HashedTexts
from glbandits.evaluation.readers.row_order import ordered_rows
from glbandits.evaluation.readers.table_layout import TableLayout
from glbandits.evaluation.readers.table_log import TableLog
from glbandits.features import Hashing
from glbandits.maths.links import Link, find_link

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
    id: str | None = msgspec.field(name="EventId", default=None)
    time: str | None = msgspec.field(name="Timestamp", default=None)

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

    @property
    def probabilities_of_actions(self) -> list[float] | None:
        """The probability of each action in the order of the actions; None if the line does not have all."""
        if not self.has_all_probabilities:
            return None
        by_action = dict(zip(self.ranking, self.probabilities, strict=True))
        return [by_action[action] for action in range(1, len(self.actions) + 1)]

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


def _as_json(features: Any) -> str:
    return msgspec.json.encode(features).decode()


COLUMNS: dict[str, tuple[Any, Callable[[int, _Event], Any]]] = {
    "line": (pl.Int64, lambda line, _: line),
    "time": (pl.String, lambda _, event: event.time),
    "arm": (pl.Int64, lambda _, event: event.chosen),
    "reward": (pl.Float64, lambda _, event: event.reward),
    "propensity": (pl.Float64, lambda _, event: event.propensity),
    "probabilities": (pl.List(pl.Float64), lambda _, event: event.probabilities_of_actions),
    "shared": (pl.String, lambda _, event: _as_json(event.shared)),
    "actions": (pl.List(pl.String), lambda _, event: [_as_json(action) for action in event.actions]),
}
"""The columns of the table of decisions: their types, and their values from the number of a line and its event."""


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

    def __call__(
        self, names: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        needed = [] if predicate is None else predicate.meta.root_names()
        wanted = {name: COLUMNS[name] for name in dict.fromkeys([*(names or COLUMNS), *needed])}
        events = ((line, event) for line, event in _events(self.path) if event.is_shown)
        while part := list(islice(events, min(batch or BLOCK, BLOCK if rows is None else rows))):
            columns = [pl.Series(n, [value(*each) for each in part], kind) for n, (kind, value) in wanted.items()]
            frame = pl.DataFrame(columns)
            frame = frame if predicate is None else frame.filter(predicate)
            yield frame if names is None else frame.select(names)
            rows = None if rows is None else rows - len(part)
            if rows == 0:
                return


def read_dsjson(
    path: str | PathLike[str],
    *,
    hashing: Hashing | None = None,
    link: str | Link = AUTO_LINK,
    sparse: bool | None = None,
) -> DsjsonLog:
    """Read a log in Vowpal Wabbit's dsjson format. The features of actions are hashed.

    The log may be larger than memory. Lines without a decision are counted (see `DsjsonLog.counts`) and skipped. If all
    decisions have a `Timestamp`, rows are in this order. An `EventId` with two decisions is refused.

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
    facts = _first_pass(file, find_link(inferred_link(link, are_binary=False)))
    columns = Columns(features="actions", probabilities="probabilities" if facts.has_probabilities else None)
    layout = TableLayout(
        columns=columns,
        link=inferred_link(link, are_binary=facts.binary),
        link_inferred=link == AUTO_LINK,
        rows=facts.counts.decisions,
        max_arms=facts.max_arms,
        pairs=HashedTexts(hashing, file.name),
        sparse=sparse,
    )
    table = register_io_source(_Decisions(file), schema={name: kind for name, (kind, _) in COLUMNS.items()})
    with ExitStack() as stack:
        if not facts.in_order:
            folder = stack.enter_context(TemporaryDirectory(prefix="glbandits-"))
            table = ordered_rows(table, Columns(time="time"), Path(folder))
        log = DsjsonLog(table, layout, random_access=not facts.in_order)
        weakref.finalize(log, stack.pop_all().close)
    log.counts = facts.counts
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


class _FileFacts(NamedTuple):
    """What the first pass over a file finds."""

    counts: DsjsonCounts
    max_arms: int
    has_probabilities: bool
    """Whether all decisions have the probabilities of all actions."""
    binary: bool
    """Whether all rewards are 0 and 1."""
    in_order: bool
    """Whether the decisions are in the order of their times, or do not have them."""


def _first_pass(path: Path, link: Link) -> _FileFacts:
    """Validate all lines."""
    decisions = others = not_activated = max_arms = 0
    complete, in_order, has_times, rewards, ids = True, True, True, set[float](), array("q")
    first_pdrop, last_time = None, ""
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
        has_times &= event.time is not None
        in_order, last_time = in_order and (event.time or "") >= last_time, event.time or ""
        if event.id is not None:
            ids.append(hash(event.id))
        if len(rewards) < 3:
            rewards.add(event.reward)
    if not decisions:
        raise InvalidInput(
            f"{path} must have decisions; got {others} other lines and {not_activated} decisions that were not shown"
        )
    repeated = len(ids) - len(np.unique(ids))
    if repeated:
        raise InvalidInput(
            f"{path} must have each decision once, but {repeated:,} of {decisions:,} repeat an EventId. Copies count "
            "as evidence: delete them"
        )
    counts = DsjsonCounts(decisions=decisions, others=others, not_activated=not_activated)
    return _FileFacts(counts, max_arms, complete, rewards == {0.0, 1.0}, in_order or not has_times)
