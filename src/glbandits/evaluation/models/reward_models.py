"""Reward models: what reward is to be expected of an arm, learned from the log itself.

A row must not be judged by a model that has seen it. So rows are dealt to folds, there is a model for each fold that
learned from the other folds alone, and a row asks the model of its own fold (cross-fitting).
"""

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from glbandits.errors import InvalidInput, check_int
from glbandits.evaluation.logs.arm_features import FixedArms
from glbandits.evaluation.logs.logged_data import LoggedData, chosen_features, chosen_rows
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.evaluation.models.glm_learner import GlmLearner
from glbandits.evaluation.models.link_arrays import of_scores
from glbandits.evaluation.models.sparse_glm import SparseGlm
from glbandits.maths.links import Link, find_link
from glbandits.maths.sparse_rows import SparseRows
from glbandits.records import Floats, Ints, set_validated

FEWEST, MOST, GROWTH = 32, 4096, 8
"""Rows that are predicted together, with a model of the rows before: at least, at most, and n / 8 after n rows."""
ALL_LEARNED, STEP = 200_000, 8
"""`SequentialGlm` learns all rows up to the first number, and then every eighth."""


@runtime_checkable
class RewardModel(Protocol):
    """How models are made: they learn blocks of rows, and are then asked about others."""

    @property
    def folds(self) -> int:
        """How many models there are."""

    @property
    def most_rows(self) -> int:
        """How many rows are learned at most; of a longer log they are taken evenly."""

    def begin(self, dim: int) -> "CrossFitted":
        """Models that have seen nothing."""


class CrossFitted(Protocol):
    """A model for each fold."""

    def learn(self, block: LoggedData, folds: Ints) -> None:
        """The next rows, and the fold of each."""

    def finish(self) -> None:
        """There are no more."""

    def expect(self, block: LoggedData, folds: Ints) -> Floats:
        """The expected reward of every arm, (m, most), by the model that has not seen the row."""


@dataclass(frozen=True)
class GlmReward:
    """A generalized linear model that learns in one pass, in its own units and with an intercept: `Optimist`'s.

    On a log with sparse rows the prior has one precision for each feature, without correlations. The coefficients are
    fitted to the first rows, up to two million features that are set, by Newton's method; rows after them are learned
    in one pass.

    Args:
        link: of the model.
        folds: how many models there are.
        most_rows: how many rows are learned at most; of a longer log they are taken evenly.
    """

    link: str | Link = "identity"
    folds: int = 4
    most_rows: int = 1_000_000

    def __post_init__(self) -> None:
        find_link(self.link)
        _check_counts(self)

    def begin(self, dim: int) -> CrossFitted:  # noqa: D102
        return _Glms(self, dim)


class _Glms:
    """Dense or sparse, as the first block is."""

    def __init__(self, model: GlmReward, dim: int) -> None:
        self._start = model, dim
        self._fitted: _DenseGlms | _SparseGlms | None = None

    def learn(self, block: LoggedData, folds: Ints) -> None:
        if self._fitted is None:
            self._fitted = (_SparseGlms if block.sparse else _DenseGlms)(*self._start)
        self._fitted.learn(block, folds)

    def finish(self) -> None:
        assert self._fitted is not None
        self._fitted.finish()

    def expect(self, block: LoggedData, folds: Ints) -> Floats:
        assert self._fitted is not None
        return self._fitted.expect(block, folds)


class _DenseGlms:
    def __init__(self, model: GlmReward, dim: int) -> None:
        self._link = find_link(model.link)
        self._learners = [GlmLearner(self._link, dim) for _ in range(model.folds)]

    def learn(self, block: LoggedData, folds: Ints) -> None:
        X = chosen_features(block)
        for fold, learner in enumerate(self._learners):
            others = folds != fold
            learner.learn(X[others], block.rewards[others])

    def finish(self) -> None:
        for learner in self._learners:
            learner.finish()
        self._thetas = np.array([learner.theta for learner in self._learners])

    def expect(self, block: LoggedData, folds: Ints) -> Floats:
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

    def expect(self, block: LoggedData, folds: Ints) -> Floats:
        expected = np.empty((len(block), block.arms.most))
        for fold, model in enumerate(self._models):
            expected[folds == fold] = model.expect(block[folds == fold])
        return expected


class SequentialGlm:
    """The same model as `GlmReward`, without folds: it predicts rows, then learns them.

    After many rows it learns only some of the next ones, because more rows hardly change its predictions and learning
    takes longest. Which rows it learns depends on their number only, so the predictions use earlier rows alone.

    Args:
        link: of the model.
        dim: features of an arm.
        sparse: whether arms are sparse rows.
    """

    def __init__(self, link: Link, dim: int, *, sparse: bool = False) -> None:
        self._model: _OneGlm | SparseGlm = SparseGlm(link, dim) if sparse else _OneGlm(link, dim)
        self._rows = 0

    def predict_then_learn(self, block: LoggedData) -> Floats:
        """Return the expected reward of every arm, (rows, most), by models that had learned only rows before it."""
        predicted = np.empty((len(block), block.arms.most))
        start = 0
        while start < len(block):
            stop = start + min(MOST, max(FEWEST, self._rows // GROWTH))
            rows = block[start:stop]
            predicted[start:stop] = self._model.expect(rows)
            self._model.learn(rows if self._rows < ALL_LEARNED else rows[::STEP])
            self._rows += len(rows)
            start = stop
        return predicted


class _OneGlm:
    """A `GlmLearner` for blocks."""

    def __init__(self, link: Link, dim: int) -> None:
        self._link, self._learner = link, GlmLearner(link, dim)

    def learn(self, block: LoggedData) -> None:
        self._learner.learn(chosen_features(block), block.rewards)

    def expect(self, block: LoggedData) -> Floats:
        return _expected_rewards(block, self._learner.theta[np.newaxis], self._link)


def _expected_rewards(block: LoggedData, theta: Floats, link: Link) -> Floats:
    """Of every arm, (rows, most), with coefficients and an intercept for each row, or one row of them for all."""
    scores: Floats
    if isinstance(block.arms, FixedArms):
        scores = theta[:, :-1] @ block.arms.arms.T + theta[:, -1:]
        scores = np.repeat(scores, len(block), axis=0) if len(theta) == 1 else scores
    else:
        theta = np.broadcast_to(theta, (len(block), theta.shape[1]))
        scores = np.einsum("akd,ad->ak", block.features(), theta[:, :-1]) + theta[:, -1:]
    return of_scores(link, "mean", scores)


@dataclass(frozen=True)
class SklearnReward:
    """Any regressor of scikit-learn, or a classifier whose classes are the rewards.

    It is fitted on the features of the chosen arms, which are kept in memory for it. Sparse rows are given to it as a
    CSR array.

    Args:
        regressor: one that was not fitted yet; it is cloned for each fold.
        folds: how many models there are.
        most_rows: how many rows are learned at most; of a longer log they are taken evenly.
    """

    regressor: Any
    folds: int = 4
    most_rows: int = 1_000_000

    def __post_init__(self) -> None:
        if not (hasattr(self.regressor, "fit") and hasattr(self.regressor, "predict")) or isinstance(
            self.regressor, type
        ):
            raise InvalidInput(
                f"regressor must be a scikit-learn estimator such as Ridge(); got {repr(self.regressor)[:60]}"
            )
        _check_counts(self)

    def begin(self, dim: int) -> CrossFitted:  # noqa: ARG002, D102
        return _Regressors(self)


def _check_counts(model: GlmReward | SklearnReward) -> None:
    folds, most_rows = (
        check_int("folds", model.folds, at_least=2, at_most=100),
        check_int("most_rows", model.most_rows, at_least=2),
    )
    set_validated(model, folds=folds, most_rows=most_rows)


@dataclass
class _Regressors:
    model: SklearnReward
    parts: list[tuple[Any, Floats, Ints]] = field(default_factory=list)

    def learn(self, block: LoggedData, folds: Ints) -> None:
        X = _design(block, chosen_rows(block)) if block.sparse else chosen_features(block)
        self.parts.append((X, block.rewards, folds))

    def finish(self) -> None:
        from sklearn.base import clone

        designs, rewards, folds_of = zip(*self.parts, strict=True)
        X = vstack(designs, format="csr") if issparse(designs[0]) else np.concatenate(designs)
        y, folds = np.concatenate(rewards), np.concatenate(folds_of)
        self.fitted = [
            clone(self.model.regressor).fit(X[folds != fold], y[folds != fold]) for fold in range(self.model.folds)
        ]
        self.parts.clear()

    def expect(self, block: LoggedData, folds: Ints) -> Floats:
        out = np.zeros((len(block), block.arms.most))
        for fold, fitted in enumerate(self.fitted):
            rows = folds == fold
            if rows.any():
                X = _every_arm(block[rows])
                classifies = hasattr(fitted, "predict_proba")
                answers = fitted.predict_proba(X) @ fitted.classes_ if classifies else fitted.predict(X)
                out[rows[:, np.newaxis] & block.there] = np.ravel(answers)
        return out


def _every_arm(block: LoggedData) -> Any:
    """The features of all arms of all rows, one below the other: an array, or a CSR array."""
    if isinstance(block.arms, SparseArms):
        return _design(block, block.arms.every_arm())
    return block.features()[block.there]


def _design(block: LoggedData, rows: SparseRows) -> Any:
    """Sparse rows as a CSR array."""
    return csr_array((rows.values, rows.indices, rows.indptr), shape=(rows.row_count, block.dim))
