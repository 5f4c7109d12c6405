"""Embeddings: categories of arms. Arms of the same category share what the log tells about any of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from glbandits.errors import InvalidInput
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.records import Floats, Ints

AnyEmbeddings: TypeAlias = Mapping[str, Any] | ArrayLike
"""A category, or a tuple of several, for each arm: by its name; or an array (arms,) or (arms, dimensions). Where rows
have arms of their own: an array (rows, arms) or (rows, arms, dimensions)."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The category of every arm as a number."""

    codes: Ints
    """(K,) where all rows have the same arms, else (n, most)."""

    def weights(self, block: LoggedData, target: Floats, first: int) -> Floats:
        """The ratio of both policies' probabilities of the chosen arm's category, (m,).

        Args:
            block: rows of the log.
            target: the target's probabilities of their arms, (m, most).
            first: index of the first row in the log.
        """
        if block.probabilities is None:
            raise InvalidInput("some rows of the log have the probabilities of all arms and others do not")
        codes = np.broadcast_to(
            self.codes if self.codes.ndim == 1 else self.codes[first : first + len(block)], target.shape
        )
        same = (codes == codes[np.arange(len(block)), block.chosen][:, np.newaxis]) & block.there
        wanted, logged = (np.einsum("ak,ak->a", same, given) for given in (target, block.probabilities))
        weights: Floats = wanted / logged
        return weights


def as_embeddings(given: AnyEmbeddings | None, head: LoggedData, rows: int) -> Embeddings:
    """Embeddings from what a user may write, for a log of so many rows that begins with `head`."""
    if given is None:
        raise InvalidInput("mips and offcem need embeddings: a category for each arm. Give them, or use dr")
    if head.probabilities is None:
        raise InvalidInput(
            "mips and offcem need the probability that the log's policy gave to every arm; the log has only that of "
            "the chosen arm. Give LoggedData(probabilities=...), or use dr"
        )
    categories = _categories(_by_index(given, head.arm_names) if isinstance(given, Mapping) else given)
    shape = (rows, head.arms.most) if not head.arms.same_arms else (head.arms.most,)
    if categories.shape[: len(shape)] != shape or categories.ndim > len(shape) + 1:
        raise InvalidInput(
            f"embeddings must be an array of shape {shape}, or with one more axis for several dimensions; "
            f"got {categories.shape}"
        )
    flat = categories.reshape(prod(shape), -1)
    return Embeddings(np.unique(flat, axis=0, return_inverse=True)[1].reshape(shape))


def _by_index(given: Mapping[str, Any], names: tuple[str, ...] | None) -> list[Any]:
    if names is None:
        raise InvalidInput(
            "embeddings by name need a log whose rows all have the same, named arms. Give an array of categories"
        )
    missing = [name for name in names if name not in given]
    if missing:
        raise InvalidInput(
            f"embeddings must have a category for each of the {len(names)} arms; {len(missing)} have none, such as "
            f"{missing[0]!r}. Add them"
        )
    return [given[name] for name in names]


def _categories(given: ArrayLike) -> np.ndarray[Any, Any]:
    try:
        categories = np.asarray(given)
    except ValueError:
        raise InvalidInput("embeddings must have as many dimensions for each arm as for the others") from None
    if categories.dtype.kind not in "biufUS" or (categories.dtype.kind == "f" and not np.isfinite(categories).all()):
        raise InvalidInput(f"embeddings must be texts or finite numbers; got an array of {categories.dtype}")
    return categories
