"""A table of labelled rows as a bandit: guess the class of a row, and be told only whether the guess was right."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike

from glbandits.environments.noise import NOISES, Noise
from glbandits.environments.synthetic import CHUNK_SIZE, ROUND_OVERHEAD
from glbandits.errors import MAX_ABS, InvalidInput, lookup
from glbandits.records import Floats, Ints, Rounds

BUNDLED = {"iris": "load_iris", "wine": "load_wine", "breast-cancer": "load_breast_cancer", "digits": "load_digits"}
"""The tables that come with scikit-learn, by the function that loads each."""

# The parts of a run are drawn from streams of their own.
ROWS, NOISE = 0, 1


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassificationTable:
    """Each round shows one row of a table, drawn with replacement; each class is an arm, and the right one pays 1.

    What an arm shows is the row in the arm's own block, and zeros in the blocks of the others, so that every class has
    weights of its own. Columns are standardised over the table and divided by the root of their number, so that a row
    is about 1 long however many columns there are, and a constant 1 comes last in the block.

    Real rows, and rewards that follow no link: nothing here was made to suit a policy. Regret counts wrong guesses.

    Args:
        features: numbers, (rows, columns).
        labels: the class of each row, (rows,): whole numbers or texts. Arms are in their sorted order.

    >>> problem = ClassificationTable(features=[[1.0, 5.0], [2.0, 5.5], [3.0, 4.0]], labels=["cat", "dog", "cat"])
    >>> [piece.arms.shape for piece in problem.rounds(horizon=8, seed=1)]
    [(8, 2, 6)]
    """

    features: ArrayLike = field(repr=False)
    labels: ArrayLike = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _checked_features(self.features))
        object.__setattr__(self, "labels", _checked_labels(self.labels, len(self._rows)))

    @classmethod
    def bundled(cls, name: str) -> "ClassificationTable":
        """A table that comes with scikit-learn: "iris", "wine", "breast-cancer" or "digits"."""
        loader = lookup("table", name, BUNDLED)
        try:
            from sklearn import datasets
        except ModuleNotFoundError:
            raise InvalidInput(
                f"the table {name!r} comes with scikit-learn, which is in the extra [lab]: "
                "pip install 'glbandits[lab]', or give features and labels of your own"
            ) from None
        features, labels = getattr(datasets, loader)(return_X_y=True)
        return cls(features=features, labels=labels)

    @property
    def dim(self) -> int:
        """Classes times the length of a block."""
        return self.classes * self.block

    @property
    def classes(self) -> int:
        """The number of arms."""
        return int(self._right.max()) + 1

    @property
    def block(self) -> int:
        """The features of a class: the columns, and a constant."""
        return int(self._rows.shape[1]) + 1

    @property
    def noise(self) -> Noise:
        """Bernoulli, of chances that are 0 or 1: a guess is right or wrong, and luck has no part in it."""
        return NOISES["bernoulli"]

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """The rounds of one run, in pieces of at most 4 MB of features."""
        rows, noises = (
            np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,))) for part in (ROWS, NOISE)
        )
        shown, right, classes, block = self._shown, self._right, self.classes, self.block
        each = np.arange(classes)
        longest = max(1, CHUNK_SIZE // (classes * (self.dim + 2) + ROUND_OVERHEAD))
        for start in range(0, horizon, longest):
            length = min(longest, horizon - start)
            drawn = rows.integers(0, len(shown), length)
            arms = np.zeros((length, classes, classes, block))
            arms[:, each, each] = shown[drawn, np.newaxis]
            expected = (right[drawn, np.newaxis] == each).astype(np.float64)
            yield Rounds(
                arms=arms.reshape(length, classes, classes * block),
                counts=np.full(length, classes),
                expected=expected,
                noise=self.noise.draw(noises, length),
                values=expected,
            )

    def fingerprint(self) -> str:
        """The table by its size and its hash."""
        return f"ClassificationTable({self._rows.shape}, {self.classes} classes, {self._digest})"

    @cached_property
    def _digest(self) -> str:
        return sha256(self._rows.tobytes() + self._right.tobytes()).hexdigest()[:16]

    @property
    def _rows(self) -> Floats:
        return np.asarray(self.features, dtype=np.float64)

    @cached_property
    def _right(self) -> Ints:
        """The place of each row's class among the classes."""
        return np.unique(np.asarray(self.labels), return_inverse=True)[1].astype(np.int64)

    @cached_property
    def _shown(self) -> Floats:
        """A block for each row. A column that never changes says nothing, and becomes zeros."""
        centred = self._rows - self._rows.mean(axis=0)
        changes = np.ptp(self._rows, axis=0) > 0.0  # the deviation of equal numbers may be rounding
        standard = np.where(changes, centred / np.where(changes, centred.std(axis=0), 1.0), 0.0)
        return np.column_stack([standard / np.sqrt(standard.shape[1]), np.ones(len(standard))])


def _checked_features(features: ArrayLike) -> Floats:
    try:
        rows = np.array(features, dtype=np.float64, order="C")  # a copy: the caller's may change
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"features must be numbers, (rows, columns): {error}") from None
    if rows.ndim != 2 or not rows.size or not (np.abs(rows) <= MAX_ABS).all():
        raise InvalidInput(
            f"features must be finite numbers of at most {MAX_ABS:g}, (rows, columns); got shape {rows.shape}"
        )
    return rows


def _checked_labels(labels: ArrayLike, rows: int) -> ArrayLike:
    classes = np.array(labels)
    if classes.shape != (rows,) or classes.dtype.kind not in "iubU":
        raise InvalidInput(
            f"labels must be whole numbers or texts, one for each of the {rows} rows; got {classes.dtype} of shape "
            f"{classes.shape}"
        )
    if len(np.unique(classes)) < 2:
        raise InvalidInput(f"labels must name at least two classes, or there is nothing to choose; got {classes[0]!r}")
    return classes
