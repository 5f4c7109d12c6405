"""Propensities that nobody wrote down, estimated from the log itself: a last resort, and said loudly."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, overload

import numpy as np

from glbandits.errors import InvalidInput, check_int
from glbandits.evaluation.logs.arm_features import CrossedArms
from glbandits.evaluation.logs.log_slice import fold_of
from glbandits.evaluation.logs.logged_data import BLOCK, Log, LoggedData
from glbandits.evaluation.models.overlap import overlap_of
from glbandits.records import Floats, Ints


class EstimatedPropensities(UserWarning):
    """Propensities were estimated from the log itself. What is made of them is only as good as that estimate."""


@overload
def estimate_propensities(log: LoggedData, *, folds: int = ..., most_rows: int = ...) -> LoggedData: ...


@overload
def estimate_propensities(log: Log, *, folds: int = ..., most_rows: int = ...) -> Log: ...


def estimate_propensities(log: Log, *, folds: int = 5, most_rows: int = 200_000) -> Log:
    """The same log, with the probabilities of its arms estimated from how often they were chosen.

    Without a context, the probability of an arm is its share of the rows. With one, it is learned from the context, and
    from what belongs to one row and one arm, by a multinomial logistic regression of scikit-learn. A row is judged by
    a model that has not seen it (or its cluster): rows are dealt to folds. An `EstimatedPropensities` warning says what
    was done and what the probabilities look like; `overlap_of` tells more.

    It is right only if the context holds all that the log's policy looked at. If it looked at more, and that has to do
    with rewards, estimates are biased however large the log is.

    Args:
        log: with the same arms in every row. A streamed log stays so: it is read once here, and its blocks get their
            probabilities when they are read. One in memory gets an array of rows x arms.
        folds: as many models are learned.
        most_rows: a model learns from at most so many rows, evenly taken.
    """
    folds, most_rows = check_int("folds", folds, at_least=2), check_int("most_rows", most_rows, at_least=1)
    model = _learned(log, folds, most_rows)
    estimated = _completed(log, model, 0) if isinstance(log, LoggedData) else _EstimatedLog(log, model)
    said = [
        f"the propensities of the {len(log)} chosen arms were estimated by {model.name}, because the log has none: "
        "what is evaluated with them is right only if the log's policy looked at nothing but the context",
        *overlap_of(estimated).warnings(),
    ]
    warnings.warn(". ".join(said), EstimatedPropensities, stacklevel=2)
    return estimated


@dataclass(frozen=True)
class _Shares:
    shares: Floats
    """Of each arm, (K,)."""
    name: str = "the share of rows that chose each arm"

    def probabilities(self, block: LoggedData, first: int) -> Floats:  # noqa: ARG002
        """Of all arms, (n, K). `first` is the number of the first row in the log."""
        return np.tile(self.shares, (len(block), 1))


@dataclass(frozen=True)
class _Regressions:
    """A model for each fold, which has not seen its rows."""

    fitted: Sequence[Any]
    rows: Sequence[int]
    """From how many rows each has learned."""
    name: str = "a multinomial logistic regression"

    def probabilities(self, block: LoggedData, first: int) -> Floats:
        """Of all arms, (n, K). `first` is the number of the first row in the log."""
        inputs, folds = _inputs(block), fold_of(_units(block, first), len(self.fitted))
        out = np.zeros((len(block), block.arms.most))
        for fold, (fitted, learned) in enumerate(zip(self.fitted, self.rows, strict=True)):
            here = np.flatnonzero(folds == fold)
            if len(here):
                out[np.ix_(here, fitted.classes_)] = fitted.predict_proba(inputs[here])
                # An arm that only this fold chose must keep some probability: all arms share one row more.
                out[here] = (out[here] * learned + 1 / block.arms.most) / (learned + 1)
        return out


_Model: TypeAlias = _Shares | _Regressions


class _EstimatedLog:
    """A streamed log, whose blocks get their propensities when they are read."""

    def __init__(self, log: Log, model: _Model) -> None:
        self._log, self._model = log, model
        self.dim, self.arm_names, self.feature_map, self.sparse = log.dim, log.arm_names, log.feature_map, log.sparse

    def __len__(self) -> int:
        return len(self._log)

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        first = 0
        for block in self._log.blocks(size):
            yield _completed(block, self._model, first)
            first += len(block)


def _completed(log: LoggedData, model: _Model, first: int) -> LoggedData:
    parts = []
    for block in log.blocks():
        parts.append(model.probabilities(block, first))
        first += len(block)
    return replace(log, probabilities=np.concatenate(parts), estimated=True)


def _learned(log: Log, folds: int, most_rows: int) -> _Model:
    """Count arms, and gather rows to learn from where there is a context."""
    every, first = -(-len(log) // most_rows), 0
    counts = np.zeros(0, dtype=np.int64)
    parts: list[tuple[Floats, Ints, Ints]] = []
    for block in log.blocks():
        _check(block)
        chosen = np.bincount(block.chosen, minlength=block.arms.most)
        counts = counts + chosen if len(counts) else chosen
        if isinstance(block.arms, CrossedArms):
            rows = np.arange(-first % every, len(block), every)
            parts.append((_inputs(block[rows]), block.chosen[rows], fold_of(_units(block, first)[rows], folds)))
        first += len(block)
    if not parts:
        return _Shares(counts / counts.sum())
    inputs, chosen, dealt = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return _regressions(inputs, chosen, dealt, folds)


def _regressions(inputs: Floats, chosen: Ints, dealt: Ints, folds: int) -> _Regressions:
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ModuleNotFoundError:
        raise InvalidInput(
            "estimating propensities from a context needs scikit-learn, which is in the extra [lab]: "
            "pip install 'glbandits[lab]'"
        ) from None
    fitted, rows = [], []
    for fold in range(folds):
        others = dealt != fold
        if len(np.unique(chosen[others])) < 2:
            raise InvalidInput(
                "estimating propensities needs rows with at least two arms in every fold; got one. A log with one arm "
                "says nothing about others; a short one needs fewer folds"
            )
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        fitted.append(model.fit(inputs[others], chosen[others]))
        rows.append(int(others.sum()))
    return _Regressions(fitted, rows)


def _check(block: LoggedData) -> None:
    if block.propensities is not None:
        raise InvalidInput("the log has propensities; to have them estimated all the same, read it without them")
    if block.sparse:
        raise InvalidInput(
            "propensities cannot be estimated from sparse rows. Read the log with sparse=False, or estimate them by a "
            "model of your own and give them as a column"
        )
    if not block.arms.same_arms:
        raise InvalidInput(
            "propensities can be estimated only where all rows have the same arms; here they differ from row to row. "
            "Ask whoever keeps the log for them, or estimate them by a model of your own, and give them as a column. "
            "Where the choice was uniform, that is 1 over the number of arms of the row"
        )


def _inputs(block: LoggedData) -> Floats:
    """All that the choice may have depended on, (n, p + K r)."""
    arms = block.arms
    if not isinstance(arms, CrossedArms):
        return np.empty((len(block), 0))
    return arms.contexts if arms.own is None else np.hstack([arms.contexts, arms.own.reshape(len(block), -1)])


def _units(block: LoggedData, first: int) -> Ints:
    """What decides the fold of each row: its cluster, or its number."""
    return np.arange(first, first + len(block)) if block.clusters is None else block.clusters
