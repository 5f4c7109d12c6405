"""Logs of Vowpal Wabbit's decision service: a JSON object on each line, read a block of lines at a time."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glbandits.errors import MAX_ABS, InvalidInput, check_float, check_int
from glbandits.evaluation.logs.arm_features import ArmFeatures, RowArms
from glbandits.evaluation.logs.logged_data import (
    BLOCK,
    LARGEST_DENSE,
    ROUNDING,
    SPARSE_NUMBERS,
    LoggedData,
    rows_together,
)
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.features import Hashing
from glbandits.maths.links import Link, find_link
from glbandits.maths.sparse_rows import joined_rows
from glbandits.records import Ints

SAME = 1e-6
"""How far apart two writings of one propensity may be: some are rounded to single precision."""


@dataclass(frozen=True, kw_only=True)
class DsjsonCounts:
    """The lines of a file, and which of them are decisions that count."""

    decisions: int = 0
    others: int = 0
    """Lines that hold no decision, such as rewards of unknown decisions."""
    not_activated: int = 0
    """Decisions that were never shown to anybody (`_skipLearn`)."""


class _Decision(NamedTuple):
    shared: dict[str, Any]
    actions: list[dict[str, Any]]
    chosen: int
    reward: float
    propensity: float
    probabilities: list[float] | None
    """Of each action, in their order; None if the line has not all of them."""
    dropped: float
    """The probability that a row like this was left out of the log."""


class DsjsonLog:
    """A log in a dsjson file, which is read again, a block of lines at a time, whenever its rows are wanted.

    Its rows have the probabilities of all arms if `a` and `p` list all actions in every decision.
    The reward is the cost with its sign changed. The chosen action is the first of `a`, and its propensity the
    first of `p`; without these, `_label_Action` and `_label_probability` tell them. All lines are checked when it is
    opened, but for their features, which are checked when they are read.
    """

    arm_names = None
    feature_map = None

    def __init__(self, path: Path, hashing: Hashing, link: str | Link, *, sparse: bool = False) -> None:
        self._path, self._hashing, self._link, self.sparse = path, hashing, link, sparse
        self.counts, self._most, self._has_probabilities = _first_pass(path, find_link(link))

    @property
    def dim(self) -> int:
        """Features of an arm."""
        return self._hashing.width

    def __len__(self) -> int:
        return self.counts.decisions

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        """All decisions in order, in blocks of at most so many."""
        size = rows_together(size, self._most, 0 if self.sparse else self.dim)
        decisions: list[_Decision] = []
        features: list[Any] = []
        numbers = 0
        for decision, arms in self._decisions():
            decisions.append(decision)
            features.append(arms)
            numbers += 2 * arms.indices.size if self.sparse else 0
            if len(decisions) == size or numbers > SPARSE_NUMBERS:
                yield self._logged(decisions, features)
                decisions, features, numbers = [], [], 0
        if decisions:
            yield self._logged(decisions, features)

    def _decisions(self) -> Iterator[tuple[_Decision, Any]]:
        """The decisions that count, and the features of their actions: vectors, or sparse rows."""
        hash_features = self._hashing.rows if self.sparse else self._hashing.vectors
        for line, event in _objects(self._path):
            if _counts(event):
                with _naming(self._path, line):
                    decision = _decision(event)
                    features = hash_features(decision.shared, decision.actions)
                yield decision, features

    def _arms(self, features: list[Any], counts: Ints) -> ArmFeatures:
        if self.sparse:
            return SparseArms(joined_rows(features), counts, self.dim, most=self._most)
        arms = np.zeros((len(features), self._most, self.dim))
        for row, vectors in enumerate(features):
            arms[row, : len(vectors)] = vectors
        return RowArms(arms, counts)

    def _logged(self, decisions: list[_Decision], features: list[Any]) -> LoggedData:
        counts = np.array([len(decision.actions) for decision in decisions])
        probabilities = np.zeros((len(decisions), self._most)) if self._has_probabilities else None
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
    """A log in a file of Vowpal Wabbit's dsjson format, with an action's features hashed.

    It may be larger than memory. Lines that are no decisions are counted and passed over (see `DsjsonLog.counts`).

    Args:
        path: a file with a JSON object on each line.
        hashing: how features become numbers; 256 of them if it is not told.
        link: tells which rewards there can be. Costs are often -1 and 0, and rewards so 1 and 0: logistic.
        sparse: keep only the features that are set (`SparseArms`), so that time and memory do not depend on the width.
            Policies then play in their sparse form. By default, from a width above 4,096 on.
    """
    if not Path(path).is_file():
        raise InvalidInput(f"{path} must be a file with a JSON object on each line; there is no such file")
    hashing = Hashing() if hashing is None else hashing
    sparse = hashing.width > LARGEST_DENSE if sparse is None else bool(sparse)
    return DsjsonLog(Path(path).absolute(), hashing, link, sparse=sparse)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """What the lines hold, with their numbers. The first is 1, as editors count."""
    with path.open("rb") as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            with _naming(path, line):
                try:
                    event = json.loads(text)
                except (ValueError, RecursionError) as error:
                    raise InvalidInput(
                        f"it must be a JSON object; got {text[:60]!r}: {error}. Cut it out if it was not written to "
                        "its end"
                    ) from None
                if not isinstance(event, dict):
                    raise InvalidInput(f"it must be a JSON object; got {text[:60]!r}")
            yield line, event


@contextmanager
def _naming(path: Path, line: int) -> Iterator[None]:
    """Tell in errors where it was."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"line {line} of {path.name}: {error}") from None


def _counts(event: dict[str, Any]) -> bool:
    """Whether it is a decision that was carried out."""
    return "c" in event and not event.get("_skipLearn")


def _first_pass(path: Path, link: Link) -> tuple[DsjsonCounts, int, bool]:
    """Look at every line once: the kinds of lines, the most actions, and whether all have all probabilities."""
    decisions = others = not_activated = most = 0
    complete = True
    kept = None
    for line, event in _objects(path):
        if not _counts(event):
            not_activated += "c" in event
            others += "c" not in event
            continue
        with _naming(path, line):
            decision = _decision(event)
            link.check_reward(decision.reward)
            if kept is not None and decision.dropped != kept:
                raise InvalidInput(
                    f"pdrop must be the same on all lines, because rows have no weights here; got {decision.dropped} "
                    f"after {kept}. Evaluate the lines of each pdrop by themselves"
                )
        kept, most, decisions = decision.dropped, max(most, len(decision.actions)), decisions + 1
        complete &= decision.probabilities is not None
    if not decisions:
        raise InvalidInput(f"{path} must hold decisions; got {others} other lines and {not_activated} not activated")
    return DsjsonCounts(decisions=decisions, others=others, not_activated=not_activated), most, complete


def _decision(event: dict[str, Any]) -> _Decision:
    context = event["c"]
    actions = context.get("_multi") if isinstance(context, dict) else None
    if not isinstance(actions, list) or not actions:
        raise InvalidInput("c must be an object with the actions as _multi, a list of at least one")
    if "_slots" in context or "_outcomes" in event:
        raise InvalidInput("it holds a decision for several slots; only one slot is read")
    ranked = _first(event, "a", "_label_Action")
    chosen = check_int("the chosen action, the first of a,", ranked, at_least=1, at_most=len(actions))
    first_of_p = _first(event, "p", "_label_probability")
    propensity = check_float("the propensity, the first of p,", first_of_p, above=0.0, at_most=1.0)
    _check_ranking(event, len(actions), chosen, propensity)
    return _Decision(
        shared={name: value for name, value in context.items() if name != "_multi"},
        actions=actions,
        chosen=chosen - 1,
        reward=0.0 - check_float("_label_cost", event.get("_label_cost"), at_least=-MAX_ABS),  # a minus makes -0.0 of 0
        propensity=propensity,
        probabilities=_probabilities(event, len(actions)),
        dropped=check_float("pdrop", event.get("pdrop", 0.0), at_least=0, at_most=1),
    )


def _check_ranking(event: dict[str, Any], actions: int, chosen: int, propensity: float) -> None:
    """An error where the ranking, its probabilities, the actions and the labels say different things."""
    label, labelled = event.get("_label_Action"), event.get("_label_probability")
    if label is not None and chosen != label:
        raise InvalidInput(f"the chosen action must be the first of a, {chosen}; _label_Action says {label}")
    if labelled is not None and not abs(propensity - check_float("_label_probability", labelled)) <= SAME:
        raise InvalidInput(f"the propensity must be the first of p, {propensity}; _label_probability says {labelled}")
    ranked, probabilities = event.get("a"), event.get("p")
    if isinstance(ranked, list) and len(ranked) > actions:
        raise InvalidInput(f"a must rank the {actions} actions of _multi; got {len(ranked)} of them")
    if isinstance(ranked, list) and isinstance(probabilities, list) and len(ranked) != len(probabilities):
        raise InvalidInput(
            f"p must have a probability for each of the {len(ranked)} actions of a; got {len(probabilities)}"
        )


def _probabilities(event: dict[str, Any], actions: int) -> list[float] | None:
    """The probability of each action, in their order; None unless `a` and `p` list all of them."""
    ranked, listed = event.get("a"), event.get("p")
    if not isinstance(ranked, list) or not isinstance(listed, list) or len(ranked) != actions:
        return None
    places = [check_int("an action of a", place, at_least=1, at_most=actions) - 1 for place in ranked]
    given = [check_float("a probability of p", probability, at_least=0, at_most=1) for probability in listed]
    if len(set(places)) < actions:
        raise InvalidInput(f"a must rank each of the {actions} actions once; got {ranked}")
    if not abs(sum(given) - 1.0) <= ROUNDING:
        raise InvalidInput(f"p must sum to 1 over the {actions} actions; got {listed}")
    return [given[place] for place in np.argsort(places)]


def _first(event: dict[str, Any], ranking: str, label: str) -> Any:
    """The first of a ranking, or what the label says if there is no ranking."""
    ranked = event.get(ranking)
    return ranked[0] if isinstance(ranked, list) and ranked else event.get(label)
