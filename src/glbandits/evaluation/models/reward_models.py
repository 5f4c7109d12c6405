"""Reward models: the expected reward of each arm, learned from the log.

Models are cross-fitted: rows are assigned to folds, the model of a fold learns only from the other folds, and it
predicts the rows of its own fold. So no row is predicted by a model that has learned it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from glbandits.common.arrays import Floats, Ints, set_validated
from glbandits.common.errors import InvalidInput, check_int
from glbandits.common.extras import needed_for
from glbandits.evaluation.logs.arm_features import FixedArms
from glbandits.evaluation.logs.logged_data import Log, LoggedData, block_bounds, chosen_features, chosen_rows
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.evaluation.models.glm_models import DenseGlm, SparseGlm, apply_link
from glbandits.maths.links import Link, find_link
from glbandits.maths.sparse_rows import SparseRows

MIN_BLOCK, MAX_BLOCK, GROWTH = 32, 4096, 8
"""Rows that are predicted with the same model: n / 8 after n rows, at least 32 and at most 4096."""
ALL_LEARNED, STEP = 200_000, 8
"""`SequentialGlm` learns all of the first 200,000 rows, and then every eighth row."""


@runtime_checkable
class RewardModel(Protocol):
    """A factory of cross-fitted models."""

    @property
    def folds(self) -> int:
        """Number of folds, and of models."""

    @property
    def max_rows(self) -> int:
        """Maximum number of rows to learn; evenly spaced rows of a longer log."""

    def begin(self, log: Log) -> "CrossFitted":
        """Return untrained models for the arms of a log."""


class CrossFitted(Protocol):
    """One model for each fold."""

    def learn(self, block: LoggedData, folds: Ints) -> None:
        """Learn the next rows, given the fold of each."""

    def finish(self) -> None:
        """Finish training. Called once, after the last rows."""

    def predict(self, block: LoggedData, folds: Ints) -> Floats:
        """Return the expected reward of each arm, (m, max_arms), by the model of each row's fold."""


@dataclass(frozen=True)
class GlmReward:
    """A generalized linear model with an intercept: the posterior of `Optimist`.

    The first rows are fitted by Newton's method, later rows are learned online. On sparse rows the posterior has one
    precision for each feature, without correlations, and the first rows are those with up to two million nonzero
    features.

    Args:
        link: link of the model.
        folds: number of folds.
        max_rows: maximum number of rows to learn; evenly spaced rows of a longer log.
    """

    link: str | Link = "identity"
    folds: int = 4
    max_rows: int = 1_000_000

    def __post_init__(self) -> None:
        find_link(self.link)
        _check_counts(self)

    def begin(self, log: Log) -> CrossFitted:
        return _SparseGlms(self, log.dim) if log.sparse else _DenseGlms(self, log.dim)


class _DenseGlms:
    def __init__(self, model: GlmReward, dim: int) -> None:
        self._link = find_link(model.link)
        self._learners = [DenseGlm(self._link, dim) for _ in range(model.folds)]

    def learn(self, block: LoggedData, folds: Ints) -> None:
        X = chosen_features(block)
        for fold, learner in enumerate(self._learners):
            others = folds != fold
            learner.learn(X[others], block.rewards[others])

    def finish(self) -> None:
        for learner in self._learners:
            learner.finish()
        self._thetas = np.array([learner.theta for learner in self._learners])
        self._learners.clear()  # workers need only the coefficients

    def predict(self, block: LoggedData, folds: Ints) -> Floats:
        return _expected_rewards(block, self._thetas[folds], self._link)


class _SparseGlms:
    def __init__(self, model: GlmReward, dim: int) -> None:
        self._models = [SparseGlm(find_link(model.link), dim) for _ in range(model.folds)]

    def learn(self, block: LoggedData, folds: Ints) -> None:
        for fold, model in enumerate(self._models):
            model.learn(block[folds != fold])

    def finish(self) -> None:
        for model in self._models:
            model.finish()

    def predict(self, block: LoggedData, folds: Ints) -> Floats:
        expected = np.empty((len(block), block.arms.max_arms))
        for fold, model in enumerate(self._models):
            expected[folds == fold] = model.predict(block[folds == fold])
        return expected


class SequentialGlm:
    """The model of `GlmReward` without folds: it predicts rows before it learns them.

    After `ALL_LEARNED` rows it learns every eighth row only, because more rows hardly change its predictions and
    learning takes most of the time. The choice of rows depends only on their index, so predictions use earlier rows
    only.

    Args:
        link: link of the model.
        dim: number of features of an arm.
        sparse: whether arms are sparse rows.
    """

    def __init__(self, link: Link, dim: int, *, sparse: bool = False) -> None:
        self._model: _OneGlm | SparseGlm = SparseGlm(link, dim) if sparse else _OneGlm(link, dim)
        self._rows = 0

    def predict_next(self, block: LoggedData) -> Floats:
        """Return the expected reward of each arm, (rows, max_arms), then learn the rows."""
        predicted = np.empty((len(block), block.arms.max_arms))
        for part in next_parts(self._rows, len(block)):
            rows = block[part]
            predicted[part] = self._model.predict(rows)
            self._model.learn(rows if self._rows < ALL_LEARNED else rows[::STEP])
            self._rows += len(rows)
        return predicted


def next_parts(rows: int, count: int) -> Iterator[slice]:
    """Yield the parts of the next `count` rows that are predicted with the same model, after `rows` rows."""
    start = 0
    while start < count:
        stop = min(start + min(MAX_BLOCK, max(MIN_BLOCK, rows // GROWTH)), count)
        yield slice(start, stop)
        rows, start = rows + stop - start, stop


class LearnedSequence:
    """The predictions of a dense `SequentialGlm` for any part of a log, after it has learned the log.

    Args:
        link: link of the model.
        starts: the row from which on each model predicts.
        thetas: the coefficients of each model, followed by its intercept.
        first_row: index of the first row that is predicted.
    """

    def __init__(self, link: Link, starts: Ints, thetas: Floats, first_row: int = 0) -> None:
        self._link, self._starts, self._thetas, self._next_row = link, starts, thetas, first_row

    def at(self, first_row: int) -> "LearnedSequence":
        """Return the same predictions from this row on."""
        return LearnedSequence(self._link, self._starts, self._thetas, first_row)

    def predict_next(self, block: LoggedData) -> Floats:
        """Return the expected reward of each arm of the next rows, (rows, max_arms)."""
        predicted = np.empty((len(block), block.arms.max_arms))
        first = int(np.searchsorted(self._starts, self._next_row, side="right")) - 1
        last = int(np.searchsorted(self._starts, self._next_row + len(block)))
        cuts = [0, *(self._starts[first + 1 : last] - self._next_row).tolist(), len(block)]
        for model, (start, stop) in enumerate(pairwise(cuts), start=first):
            predicted[start:stop] = _expected_rewards(block[start:stop], self._thetas[model][np.newaxis], self._link)
        self._next_row += len(block)
        return predicted


def learn_sequence(log: Log, link: Link, size: int, progress: Callable[[int], None]) -> LearnedSequence:
    """Learn all models of a dense `SequentialGlm`, which predict blocks of this size.

    Only rows that are learned are read, if blocks begin at multiples of `STEP`.
    """
    model, starts, thetas, row = _OneGlm(link, log.dim), list[int](), list[Floats](), 0

    def blocks() -> Iterator[tuple[LoggedData, int, int]]:
        """Yield blocks, how many rows they stand for, and of how many rows they have one."""
        offset, stop = log.schema.first_row, len(log)
        if offset is not None and size % STEP == 0 and offset % STEP == 0:
            stop = min(-(-(ALL_LEARNED + offset % size) // size) * size - offset % size, len(log))
        for block in log.blocks(size, stop=stop):
            yield block, len(block), 1
        if offset is not None and stop < len(log):
            ends = block_bounds(size, stop + offset, len(log) + offset)
            for block, (first, last) in zip(log.blocks(size, start=stop, every=STEP), ends, strict=True):
                yield block, last - first, STEP

    for block, count, step in blocks():
        for part in next_parts(row, count):
            starts.append(row)
            thetas.append(model.theta)
            rows = block[part.start // step : -(-part.stop // step)]
            model.learn(rows if row < ALL_LEARNED or step > 1 else rows[::STEP])
            row += part.stop - part.start
        progress(count)
    return LearnedSequence(link, np.array(starts), np.array(thetas))


class _OneGlm:
    """A `DenseGlm` that takes blocks."""

    def __init__(self, link: Link, dim: int) -> None:
        self._link, self._learner = link, DenseGlm(link, dim)

    @property
    def theta(self) -> Floats:
        return self._learner.theta

    def learn(self, block: LoggedData) -> None:
        self._learner.learn(chosen_features(block), block.rewards)

    def predict(self, block: LoggedData) -> Floats:
        return _expected_rewards(block, self._learner.theta[np.newaxis], self._link)


def _expected_rewards(block: LoggedData, theta: Floats, link: Link) -> Floats:
    """Expected reward of each arm, (rows, max_arms).

    `theta` has one row for each row, or a single one for all.
    """
    scores: Floats
    if isinstance(block.arms, FixedArms):
        scores = theta[:, :-1] @ block.arms.arms.T + theta[:, -1:]
        scores = np.repeat(scores, len(block), axis=0) if len(theta) == 1 else scores
    else:
        features = block.features()
        if len(theta) == 1:  # one product of a matrix is faster than one for each row
            scores = (features.reshape(-1, features.shape[2]) @ theta[0, :-1]).reshape(features.shape[:2])
        else:
            scores = np.einsum("akd,ad->ak", features, theta[:, :-1])
        scores += theta[:, -1:]
    return apply_link(link, "mean", scores)


@dataclass(frozen=True)
class SklearnReward:
    """A scikit-learn regressor, or a classifier whose classes are the rewards.

    It is fitted to the features of the chosen arms, which are held in memory. Sparse rows become a CSR array.

    Args:
        regressor: an unfitted estimator; it is cloned for each fold.
        folds: number of folds.
        max_rows: maximum number of rows to learn; evenly spaced rows of a longer log.
    """

    regressor: Any
    folds: int = 4
    max_rows: int = 1_000_000

    def __post_init__(self) -> None:
        if not (hasattr(self.regressor, "fit") and hasattr(self.regressor, "predict")) or isinstance(
            self.regressor, type
        ):
            raise InvalidInput(
                f"regressor must be a scikit-learn estimator such as Ridge(); got {repr(self.regressor)[:60]}"
            )
        _check_counts(self)

    def begin(self, log: Log) -> CrossFitted:  # noqa: ARG002
        return _Regressors(self)


def _check_counts(model: GlmReward | SklearnReward) -> None:
    folds, max_rows = (
        check_int("folds", model.folds, at_least=2, at_most=100),
        check_int("max_rows", model.max_rows, at_least=2),
    )
    set_validated(model, folds=folds, max_rows=max_rows)


@dataclass
class _Regressors:
    model: SklearnReward
    parts: list[tuple[Any, Floats, Ints]] = field(default_factory=list)

    def learn(self, block: LoggedData, folds: Ints) -> None:
        X = _design(block, chosen_rows(block)) if block.sparse else chosen_features(block)
        self.parts.append((X, block.rewards, folds))

    def finish(self) -> None:
        with needed_for("SklearnReward", "lab"):
            from sklearn.base import clone

        designs, rewards, folds_of = zip(*self.parts, strict=True)
        X = vstack(designs, format="csr") if issparse(designs[0]) else np.concatenate(designs)
        y, folds = np.concatenate(rewards), np.concatenate(folds_of)
        self.fitted = []
        for fold in range(self.model.folds):
            try:
                self.fitted.append(clone(self.model.regressor).fit(X[folds != fold], y[folds != fold]))
            except ValueError as error:
                raise InvalidInput(
                    f"regressor could not be fitted to the rows outside of fold {fold}: "
                    f"{str(error).rstrip('.')}. Use a longer log, or another regressor"
                ) from None
        self.parts.clear()

    def predict(self, block: LoggedData, folds: Ints) -> Floats:
        out = np.zeros((len(block), block.arms.max_arms))
        for fold, fitted in enumerate(self.fitted):
            rows = folds == fold
            if rows.any():
                X = _every_arm(block[rows])
                classifies = hasattr(fitted, "predict_proba")
                predictions = fitted.predict_proba(X) @ fitted.classes_ if classifies else fitted.predict(X)
                out[rows[:, np.newaxis] & block.arm_mask] = np.ravel(predictions)
        return out


def _every_arm(block: LoggedData) -> Any:
    """Features of all arms of all rows, stacked: an array, or a CSR array."""
    if isinstance(block.arms, SparseArms):
        return _design(block, block.arms.every_arm())
    return block.features()[block.arm_mask]


def _design(block: LoggedData, rows: SparseRows) -> Any:
    """Sparse rows as a CSR array."""
    return csr_array((rows.values, rows.indices, rows.indptr), shape=(rows.row_count, block.dim))
