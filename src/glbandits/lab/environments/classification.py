"""A classification table as a bandit: the reward is 1 if the chosen class is right."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import MAX_ABS, InvalidInput, lookup, value_text
from glbandits.common.extras import needed_for
from glbandits.lab.environments.noise import NOISES, Noise
from glbandits.lab.environments.rounds import Rounds, chunk_lengths, stream

BUNDLED = {"iris": "load_iris", "wine": "load_wine", "breast-cancer": "load_breast_cancer", "digits": "load_digits"}
"""The tables of scikit-learn, and the functions that load them."""

# Random streams.
ROWS, NOISE = 0, 1


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassificationTable:
    """Each round is a random row of a table, and each class is an arm. The right class pays 1.

    Rows are drawn with replacement. The features of an arm are blocks, one for each class: the arm's own block contains
    the row, and the other blocks are zero. So every class has its own weights. The columns of the table are
    standardised and divided by the square root of their number, so that a row has a norm of about 1. The last feature
    of a block is the constant 1.

    The data are real and the rewards follow no link, so the problem favours no policy by construction. Regret counts
    wrong predictions.

    Args:
        features: numbers, (rows, columns).
        labels: the class of each row, (rows,), as integers or strings. Arms are the classes in sorted order.

    >>> problem = ClassificationTable(features=[[1.0, 5.0], [2.0, 5.5], [3.0, 4.0]], labels=["cat", "dog", "cat"])
    >>> [chunk.arms.shape for chunk in problem.rounds(horizon=8, seed=1)]
    [(8, 2, 6)]
    """

    features: ArrayLike = field(repr=False)
    labels: ArrayLike = field(repr=False)
    noise: ClassVar[Noise] = NOISES["bernoulli"]
    """The probabilities are 0 or 1, so rewards are not random."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _checked_features(self.features))
        object.__setattr__(self, "labels", _checked_labels(self.labels, len(self._rows)))

    @classmethod
    def bundled(cls, name: str) -> "ClassificationTable":
        """Load a table of scikit-learn: "iris", "wine", "breast-cancer" or "digits"."""
        loader = lookup("table", name, BUNDLED)
        with needed_for(f"the table {name!r}", "lab", alternative="pass your own features and labels"):
            from sklearn import datasets
        features, labels = getattr(datasets, loader)(return_X_y=True)
        return cls(features=features, labels=labels)

    @property
    def dim(self) -> int:
        """The number of classes times the length of a block."""
        return self.classes * self.block

    @property
    def classes(self) -> int:
        """The number of classes, which is the number of arms."""
        return int(self._class_indices.max()) + 1

    @property
    def block(self) -> int:
        """The length of a block: the number of columns, plus one for the constant."""
        return int(self._rows.shape[1]) + 1

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """Yield the rounds of one run, in chunks of at most 4 MB of features."""
        rows, noises = stream(seed, ROWS), stream(seed, NOISE)
        blocks, labels, classes, block = self._blocks, self._class_indices, self.classes, self.block
        each = np.arange(classes)
        for length in chunk_lengths(horizon, classes * (self.dim + 2)):
            sampled = rows.integers(0, len(blocks), length)
            arms = np.zeros((length, classes, classes, block))
            arms[:, each, each] = blocks[sampled, np.newaxis]
            expected = (labels[sampled, np.newaxis] == each).astype(np.float64)
            yield Rounds(
                arms=arms.reshape(length, classes, classes * block),
                counts=np.full(length, classes),
                expected=expected,
                noise=self.noise.draw(noises, length),
            )

    def fingerprint(self) -> str:
        """A text with the size and a hash of the table."""
        return f"ClassificationTable({self._rows.shape}, {self.classes} classes, {self._digest})"

    def __identity__(self) -> str:
        return self.fingerprint()

    @cached_property
    def _digest(self) -> str:
        return sha256(self._rows.tobytes() + self._class_indices.tobytes()).hexdigest()[:16]

    @property
    def _rows(self) -> Floats:
        return np.asarray(self.features, dtype=np.float64)

    @cached_property
    def _class_indices(self) -> Ints:
        """The index of each row's class."""
        return np.unique(np.asarray(self.labels), return_inverse=True)[1].astype(np.int64)

    @cached_property
    def _blocks(self) -> Floats:
        """The block of features of each row. Constant columns become zeros."""
        centred = self._rows - self._rows.mean(axis=0)
        varies = np.ptp(self._rows, axis=0) > 0.0  # std() of equal numbers may be a rounding error
        standard = np.where(varies, centred / np.where(varies, centred.std(axis=0), 1.0), 0.0)
        return np.column_stack([standard / np.sqrt(standard.shape[1]), np.ones(len(standard))])


def _checked_features(features: ArrayLike) -> Floats:
    try:
        rows = np.array(features, dtype=np.float64, order="C")  # a copy, because the caller may change theirs
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
            f"labels must be integers or strings, one for each of the {rows} rows; got {classes.dtype} of shape "
            f"{classes.shape}"
        )
    if len(np.unique(classes)) < 2:
        raise InvalidInput(f"labels must contain at least two classes; got only {value_text(classes[0])}")
    return classes
