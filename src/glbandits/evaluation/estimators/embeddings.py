"""Embeddings: categories of arms, for `mips` and `offcem`.

Arms of a category share their evidence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput, value_text
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.evaluation.readers.table_log import read_arm_table
from glbandits.features.table_columns import check_present

EmbeddingsLike: TypeAlias = Mapping[str, Any] | ArrayLike
"""A category, or a tuple of categories, for each arm: by name, or as an array (arms,) or (arms, dimensions). If rows
have different arms: an array (rows, arms) or (rows, arms, dimensions)."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The category of each arm as a number."""

    codes: Ints
    """(K,) if all rows have the same arms, else (n, max_arms)."""

    def weights(self, block: LoggedData, target: Floats, first_row: int) -> Floats:
        """Return the weights of the categories of the chosen arms, (m,).

        The weight is the probability of the category under the target, divided by that under the logging policy.

        Args:
            block: rows of the log.
            target: the target's probabilities of the arms, (m, max_arms).
            first_row: index of the first row in the log.
        """
        if block.probabilities is None:
            raise InvalidInput("all rows of a log must have the probabilities of all arms, or none; got both")
        codes = np.broadcast_to(
            self.codes if self.codes.ndim == 1 else self.codes[first_row : first_row + len(block)], target.shape
        )
        same_category = (codes == codes[np.arange(len(block)), block.chosen][:, np.newaxis]) & block.arm_mask
        wanted, logged = (
            np.einsum("ak,ak->a", same_category, probabilities) for probabilities in (target, block.probabilities)
        )
        weights: Floats = wanted / logged
        return weights


def as_embeddings(given: EmbeddingsLike | None, head: LoggedData, rows: int) -> Embeddings:
    """Convert embeddings of a user, for a log with `rows` rows, the first of which are `head`."""
    if given is None:
        raise InvalidInput(
            "mips and offcem need embeddings, a category for each arm; got none. Set embeddings, or use dr"
        )
    if head.probabilities is None:
        raise InvalidInput(
            "mips and offcem need the probability that the log's policy gave to every arm; the log has only that of "
            "the chosen arm. Give LoggedData(probabilities=...), or use dr",
            field="LoggedData.probabilities",
        )
    categories = _categories(_by_index(given, head.arm_names) if isinstance(given, Mapping) else given)
    shape = (rows, head.arms.max_arms) if not head.arms.same_arms else (head.arms.max_arms,)
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
            "embeddings by name need a log with the same named arms in all rows. Use an array of categories"
        )
    missing = [name for name in names if name not in given]
    if missing:
        raise InvalidInput(
            f"embeddings must have a category for each of the {len(names)} arms; {len(missing)} are missing, such as "
            f"{value_text(missing[0])}. Add them"
        )
    return [given[name] for name in names]


def _categories(given: ArrayLike) -> np.ndarray[Any, Any]:
    try:
        categories = np.asarray(given)
    except ValueError:
        raise InvalidInput("embeddings must have the same number of dimensions for each arm") from None
    if categories.dtype.kind not in "biufUS" or (categories.dtype.kind == "f" and not np.isfinite(categories).all()):
        raise InvalidInput(f"embeddings must be text or finite numbers; got an array of {categories.dtype}")
    return categories


def read_embeddings(arm_table: Any, columns: Sequence[str], separator: str = ",") -> dict[str, list[Any]] | None:
    """Return the categories of each arm by its name, from columns of the arm table; None without columns.

    `separator` is the character between two fields of a CSV file.
    """
    if not columns:
        return None
    if arm_table is None:
        raise InvalidInput("embeddings are columns of the arm table. Give arm_table too", field="arm_table")
    table = read_arm_table(arm_table, separator)
    check_present(columns, table.columns, "arm_table", advice="Name its columns in embedding", field="embedding")
    return {str(row[0]): list(row[1:]) for row in table.select(pl.nth(0).alias("arm"), *columns).iter_rows()}
