"""Estimate missing propensities from the log: a last resort, with a warning."""

import math
import warnings
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, overload

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput, check_int
from glbandits.common.extras import needed_for
from glbandits.evaluation.logs.arm_features import CrossedArms, FixedArms
from glbandits.evaluation.logs.log_slice import fold_of
from glbandits.evaluation.logs.log_statistics import overlap_of
from glbandits.evaluation.logs.logged_data import BLOCK, Log, LoggedData, StreamedLog


class EstimatedPropensities(UserWarning):
    """Propensities were estimated from the log. Evaluations are only as good as that estimate."""


@overload
def estimate_propensities(
    log: LoggedData, *, folds: int = ..., max_rows: int = ..., classifier: Any = ...
) -> LoggedData: ...


@overload
def estimate_propensities(log: Log, *, folds: int = ..., max_rows: int = ..., classifier: Any = ...) -> Log: ...


def estimate_propensities(log: Log, *, folds: int = 5, max_rows: int = 200_000, classifier: Any = None) -> Log:
    """Return the log with the probabilities of all arms estimated from its choices.

    Without a context, the probability of an arm is its share of the rows. With a context, a multinomial logistic
    regression of scikit-learn predicts it from the context and from the features of each pair of row and arm. Models
    are cross-fitted: no row is predicted by a model that has learned it or its cluster. Predictions that are too small
    for the log to support them are raised (`least_estimate`). An `EstimatedPropensities` warning describes the method
    and the probabilities, and counts the raised ones; `overlap_of` gives details.

    The estimate is correct only if the context has everything that the logging policy used. If the policy used more,
    and that is related to rewards, evaluations are biased, however large the log is.

    Args:
        log: a log with the same arms in every row. A streamed log stays streamed: it is read once to fit the models,
            and its blocks get their probabilities when they are read. A log in memory gets an array of rows x arms.
        folds: number of folds, and of models.
        max_rows: maximum number of rows to learn from; evenly spaced rows of a longer log.
        classifier: an unfitted classifier of scikit-learn, or an object with `fit`, `predict_proba` and `classes_`, in
            place of the logistic regression. It is copied for each fold. Calibrate classifiers whose probabilities are
            only scores.
    """
    folds, max_rows = check_int("folds", folds, at_least=2), check_int("max_rows", max_rows, at_least=1)
    if classifier is not None and not all(hasattr(classifier, name) for name in ("fit", "predict_proba")):
        raise InvalidInput(
            f"classifier must have fit and predict_proba, as those of scikit-learn; got {type(classifier).__name__}"
        )
    model = _fit_model(log, folds, max_rows, classifier)
    estimated = _with_probabilities(log, model, 0) if isinstance(log, LoggedData) else _EstimatedLog(log, model)
    message_parts = [
        f"the propensities of the {len(log)} chosen arms were estimated by {model.name}: "
        "evaluations are correct only if the logging policy used nothing but the context",
        *(text[0].upper() + text[1:] for text in overlap_of(estimated, model.least).warnings()),
    ]
    warnings.warn(". ".join(message_parts), EstimatedPropensities, stacklevel=2)
    return estimated


def least_estimate(rows: int, arms: int) -> float:
    """Return the least probability that a model of this number of rows may estimate.

    5 / (sqrt(n) ln n), which bounds weights by sqrt(n) ln n / 5 (Gruber, Phillips, Lee and van der Laan 2022). With
    many arms it is at most half of 1 / arms.

    >>> round(least_estimate(30_000, arms=8), 4), least_estimate(30_000, arms=1000)
    (0.0028, 0.0005)
    """
    return min(5.0 / (math.sqrt(rows) * math.log(max(rows, 3))), 0.5 / arms)


@dataclass(frozen=True)
class _ArmShares:
    shares: Floats
    """Share of rows that chose each arm, (K,)."""
    least: float = 0.0
    """Shares are counts, which need no bound: the effective sample size tells if they are too small."""
    name: str = "the share of rows that chose each arm"

    def probabilities(self, block: LoggedData, first_row: int) -> Floats:  # noqa: ARG002
        """Probabilities of all arms, (n, K). `first_row` is the index of the first row in the log."""
        return np.tile(self.shares, (len(block), 1))


@dataclass(frozen=True)
class _Classifiers:
    """One model for each fold, fitted to the other folds."""

    fitted: Sequence[Any]
    least: float
    """Smaller predictions are raised to this, and those of a row then divided by their sum."""
    name: str = "a multinomial logistic regression"

    def probabilities(self, block: LoggedData, first_row: int) -> Floats:
        """Probabilities of all arms, (n, K). `first_row` is the index of the first row in the log."""
        inputs, folds = _inputs(block), fold_of(_units(block, first_row), len(self.fitted))
        out = np.zeros((len(block), block.arms.max_arms))
        for fold, fitted in enumerate(self.fitted):
            rows_of_fold = np.flatnonzero(folds == fold)
            if len(rows_of_fold):
                out[np.ix_(rows_of_fold, fitted.classes_)] = fitted.predict_proba(inputs[rows_of_fold])
        np.maximum(out, self.least, out=out)
        out /= out.sum(axis=1, keepdims=True)
        return out


_Model: TypeAlias = _ArmShares | _Classifiers


class _EstimatedLog(StreamedLog):
    """A streamed log whose blocks get their probabilities when they are read."""

    def __init__(self, log: Log, model: _Model) -> None:
        self._log, self._model = log, model
        self.schema = replace(log.schema, propensities=True, probabilities=True, estimated=True)

    def for_workers(self) -> "_EstimatedLog":
        return _EstimatedLog(self._log.for_workers(), self._model)

    def blocks(
        self,
        size: int = BLOCK,
        *,
        start: int = 0,
        stop: int | None = None,
        every: int = 1,
        features: bool = True,  # noqa: ARG002  (the models need them)
    ) -> Iterator[LoggedData]:
        first_row = start
        for block in self._log.blocks(size, start=start, stop=stop):
            rows = _with_probabilities(block, self._model, first_row)
            yield rows[-first_row % every :: every]
            first_row += len(block)


def _with_probabilities(log: LoggedData, model: _Model, first_row: int) -> LoggedData:
    parts = []
    for block in log.blocks():
        parts.append(model.probabilities(block, first_row))
        first_row += len(block)
    return replace(log, probabilities=np.concatenate(parts), estimated=True)


def _fit_model(log: Log, folds: int, max_rows: int, classifier: Any) -> _Model:
    """Fit the shares of the arms, or with a context the classifiers."""
    every, first_row = -(-len(log) // max_rows), 0
    counts = np.zeros(0, dtype=np.int64)
    parts: list[tuple[Floats, Ints, Ints]] = []
    for block in log.blocks():
        _check(block)
        chosen = np.bincount(block.chosen, minlength=block.arms.max_arms)
        counts = counts + chosen if len(counts) else chosen
        if not isinstance(block.arms, FixedArms):
            rows = np.arange(-first_row % every, len(block), every)
            parts.append((_inputs(block[rows]), block.chosen[rows], fold_of(_units(block, first_row)[rows], folds)))
        first_row += len(block)
    if not parts:
        return _ArmShares(counts / counts.sum())
    inputs, chosen, fold_numbers = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    least = least_estimate(len(chosen), len(counts))
    name = _Classifiers.name if classifier is None else type(classifier).__name__
    return _Classifiers(_classifiers(inputs, chosen, fold_numbers, folds, classifier), least, name)


def _classifiers(inputs: Floats, chosen: Ints, fold_numbers: Ints, folds: int, classifier: Any) -> list[Any]:
    """One model for each fold, fitted to the other folds."""
    if classifier is None:
        with needed_for("estimating propensities from a context", "lab"):
            from sklearn.linear_model import LogisticRegression
            from sklearn.pipeline import make_pipeline
            from sklearn.preprocessing import StandardScaler
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    fitted = []
    for fold in range(folds):
        others = fold_numbers != fold
        if len(np.unique(chosen[others])) < 2:
            raise InvalidInput(
                "estimating propensities needs at least two chosen arms outside of each fold; got one. Use a longer "
                "log, or fewer folds"
            )
        model = deepcopy(classifier)
        model.fit(inputs[others], chosen[others])
        fitted.append(model)
    return fitted


def _check(block: LoggedData) -> None:
    if block.propensities is not None:
        raise InvalidInput(
            "the log has propensities. To estimate them nevertheless, read it with Columns(propensity=None)"
        )
    if block.sparse:
        raise InvalidInput(
            "propensities cannot be estimated from sparse rows. Read the log with sparse=False, or estimate them with "
            "your own model and add them as a column"
        )
    if not block.arms.same_arms:
        raise InvalidInput(
            "propensities can be estimated only if all rows have the same arms; in this log they differ. Add the "
            "logged propensities, or estimates of your own model, as a column. If arms were chosen uniformly at "
            "random, the propensity is 1 over the number of arms of the row"
        )


def _inputs(block: LoggedData) -> Floats:
    """Inputs of the regression, (n, p + K r): context, and features of pairs of row and arm."""
    arms = block.arms
    if not isinstance(arms, CrossedArms):  # features of a transformer, which combines the context with the arms
        return arms.features().reshape(len(block), -1)
    return arms.contexts if arms.own is None else np.hstack([arms.contexts, arms.own.reshape(len(block), -1)])


def _units(block: LoggedData, first_row: int) -> Ints:
    """The number that determines the fold of each row: its cluster, or its index."""
    return np.arange(first_row, first_row + len(block)) if block.clusters is None else block.clusters
