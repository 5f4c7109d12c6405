"""Read logs in Vowpal Wabbit's dsjson format, which has one JSON object per line."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glbandits.common.arrays import Ints
from glbandits.common.errors import MAX_ABS, InvalidInput, check_float, check_int
from glbandits.evaluation.logs.arm_features import ArmFeatures, RowArms
from glbandits.evaluation.logs.logged_data import (
    BLOCK,
    MAX_DENSE_FEATURES,
    MAX_SPARSE_NUMBERS,
    ROUNDING,
    DisplayedLog,
    LoggedData,
    block_size,
)
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


class _Decision(NamedTuple):
    shared: dict[str, Any]
    actions: list[dict[str, Any]]
    chosen: int
    reward: float
    propensity: float
    probabilities: list[float] | None
    """Probability of each action, in the order of `actions`; None if the line does not have all."""
    dropped: float
    """`pdrop`: the probability with which such a row was dropped from the log."""


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
        self._path, self._hashing, self._link, self.sparse = path, hashing, link, sparse
        self.counts, self._max_arms, self._has_probabilities = _first_pass(path, find_link(link))

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
        decisions: list[_Decision] = []
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

    def _decisions(self) -> Iterator[tuple[_Decision, Any]]:
        """Decisions that were shown, and the features of their actions, dense or sparse."""
        hash_features = self._hashing.rows if self.sparse else self._hashing.vectors
        for line, event in _objects(self._path):
            if _is_shown(event):
                with _locate_errors(self._path, line):
                    decision = _decision(event)
                    features = hash_features(decision.shared, decision.actions)
                yield decision, features

    def _arms(self, features: list[Any], counts: Ints) -> ArmFeatures:
        if self.sparse:
            return SparseArms(joined_rows(features), counts, self.dim, max_arms=self._max_arms)
        arms = np.zeros((len(features), self._max_arms, self.dim))
        for row, vectors in enumerate(features):
            arms[row, : len(vectors)] = vectors
        return RowArms(arms, counts)

    def _logged(self, decisions: list[_Decision], features: list[Any]) -> LoggedData:
        counts = np.array([len(decision.actions) for decision in decisions])
        probabilities = np.zeros((len(decisions), self._max_arms)) if self._has_probabilities else None
        if probabilities is not None:
            for row, decision in enumerate(decisions):
                probabilities[row, : len(decision.actions)] = decision.probabilities
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
    link: str | Link = "identity",
    sparse: bool | None = None,
) -> DsjsonLog:
    """Read a log in Vowpal Wabbit's dsjson format. The features of actions are hashed.

    The log may be larger than memory. Lines without a decision are counted (see `DsjsonLog.counts`) and skipped.

    Args:
        path: a file with one JSON object per line.
        hashing: how features are hashed; by default to 256 features.
        link: defines the valid rewards. Use "logistic" for costs of -1 and 0, which are rewards of 1 and 0.
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
        event = next((event for _, event in _objects(path)), {})
    except (OSError, InvalidInput):
        return False
    context = event.get("c")
    is_reward = "EventId" in event and "RewardValue" in event and "reward" not in event
    return is_reward or (isinstance(context, dict) and "_multi" in context)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of the lines, with line numbers that start at 1."""
    with path.open("rb") as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            with _locate_errors(path, line):
                try:
                    event = json.loads(text)
                except (ValueError, RecursionError) as error:
                    raise InvalidInput(
                        f"the line must be a JSON object; got {text[:60]!r}: {error}. Delete the line if it is "
                        "truncated"
                    ) from None
                if not isinstance(event, dict):
                    raise InvalidInput(f"the line must be a JSON object; got {text[:60]!r}")
            yield line, event


@contextmanager
def _locate_errors(path: Path, line: int) -> Iterator[None]:
    """Prefix errors with the file and the line."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"line {line} of {path.name}: {error}", field=error.field) from None


def _is_shown(event: dict[str, Any]) -> bool:
    """Whether the line is a decision that was shown to a user."""
    return "c" in event and not event.get("_skipLearn")


def _first_pass(path: Path, link: Link) -> tuple[DsjsonCounts, int, bool]:
    """Validate all lines.

    Return their counts, the largest number of actions, and whether all decisions have all probabilities.
    """
    decisions = others = not_activated = max_arms = 0
    complete = True
    first_pdrop = None
    for line, event in _objects(path):
        if not _is_shown(event):
            not_activated += "c" in event
            others += "c" not in event
            continue
        with _locate_errors(path, line):
            decision = _decision(event)
            link.check_reward(decision.reward)
            if first_pdrop is not None and decision.dropped != first_pdrop:
                raise InvalidInput(
                    f"pdrop must be the same on all lines, because rows have no weights; got {decision.dropped} after "
                    f"{first_pdrop}. Evaluate the lines of each pdrop separately"
                )
        first_pdrop, max_arms, decisions = decision.dropped, max(max_arms, len(decision.actions)), decisions + 1
        complete &= decision.probabilities is not None
    if not decisions:
        raise InvalidInput(
            f"{path} must have decisions; got {others} other lines and {not_activated} decisions that were not shown"
        )
    return DsjsonCounts(decisions=decisions, others=others, not_activated=not_activated), max_arms, complete


def _decision(event: dict[str, Any]) -> _Decision:
    context = event["c"]
    actions = context.get("_multi") if isinstance(context, dict) else None
    if not isinstance(actions, list) or not actions:
        raise InvalidInput("c must be an object with a non-empty list of actions, _multi")
    if "_slots" in context or "_outcomes" in event:
        raise InvalidInput("the line has a decision for several slots; only one slot is supported. Delete the line")
    ranked = _first(event, "a", "_label_Action")
    chosen = check_int("the chosen action, the first of a,", ranked, at_least=1, at_most=len(actions))
    first_of_p = _first(event, "p", "_label_probability")
    propensity = check_float("the propensity, the first of p,", first_of_p, above=0.0, at_most=1.0)
    _check_ranking(event, len(actions), chosen, propensity)
    return _Decision(
        shared={name: value for name, value in context.items() if name != "_multi"},
        actions=actions,
        chosen=chosen - 1,
        reward=0.0
        - check_float("_label_cost", event.get("_label_cost"), at_least=-MAX_ABS),  # -x would turn 0.0 into -0.0
        propensity=propensity,
        probabilities=_probabilities(event, len(actions)),
        dropped=check_float("pdrop", event.get("pdrop", 0.0), at_least=0, at_most=1),
    )


def _check_ranking(event: dict[str, Any], actions: int, chosen: int, propensity: float) -> None:
    """Raise InvalidInput if ranking, probabilities, actions and labels disagree."""
    label, labelled = event.get("_label_Action"), event.get("_label_probability")
    if label is not None and chosen != label:
        raise InvalidInput(f"_label_Action must be the first action of a, {chosen}; got {label}")
    if (
        labelled is not None
        and not abs(propensity - check_float("_label_probability", labelled)) <= PROPENSITY_TOLERANCE
    ):
        raise InvalidInput(f"_label_probability must be the first probability of p, {propensity}; got {labelled}")
    ranked, probabilities = event.get("a"), event.get("p")
    if isinstance(ranked, list) and len(ranked) > actions:
        raise InvalidInput(f"a must rank the {actions} actions of _multi; got {len(ranked)} of them")
    if isinstance(ranked, list) and isinstance(probabilities, list) and len(ranked) != len(probabilities):
        raise InvalidInput(
            f"p must have a probability for each of the {len(ranked)} actions of a; got {len(probabilities)}"
        )


def _probabilities(event: dict[str, Any], actions: int) -> list[float] | None:
    """The probability of each action, in the order of `_multi`.

    Returns None unless `a` and `p` list all actions.
    """
    ranked, listed = event.get("a"), event.get("p")
    if not isinstance(ranked, list) or not isinstance(listed, list) or len(ranked) != actions:
        return None
    indices = [check_int("an action of a", action, at_least=1, at_most=actions) - 1 for action in ranked]
    values = [check_float("a probability of p", probability, at_least=0, at_most=1) for probability in listed]
    if len(set(indices)) < actions:
        raise InvalidInput(f"a must rank each of the {actions} actions once; got {ranked}")
    if not abs(sum(values) - 1.0) <= ROUNDING:
        raise InvalidInput(f"p must sum to 1 over the {actions} actions; got {listed}")
    return [values[index] for index in np.argsort(indices)]


def _first(event: dict[str, Any], ranking: str, label: str) -> Any:
    """The first entry of a ranking, or the label if there is no ranking."""
    ranked = event.get(ranking)
    return ranked[0] if isinstance(ranked, list) and ranked else event.get(label)
