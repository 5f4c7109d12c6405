"""Which rows of a log a saved model has learned. Its value on these is too high."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from glbandits.bandit import Bandit
from glbandits.bandit.training_rows import WindowHashes, row_hashes
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.logged_data import Log, chosen_features, chosen_rows

MIN_SHARE, MIN_SEEN = 0.05, 3
"""Share and number of the compared rows below which equal rows are equal by coincidence."""
MAX_WRONG = 0.02
"""Share of new rows among the first ones up to which a model has learned all of these."""
MAX_COMPARED = 1_000_000
"""About the largest number of rows that are compared; of a longer log, a random sample is."""
MARGIN = 10.0
"""Mean distances of compared rows that are left out between learned and new rows."""


class SeenRows(NamedTuple):
    """The rows of a log that a model has learned."""

    share: float
    """Share of all rows."""
    first_new: int | None
    """The first of the rows that it has not learned, if these are the last ones; None if rows are mixed."""


def seen_rows(log: Log, bandit: Bandit) -> SeenRows | None:
    """Return which rows a model has learned; None if it has learned none, or if nothing says which it learned."""
    training = bandit.training
    if training is None or (log.dim, log.sparse) != (bandit.dim, bandit.sparse):
        return None
    windows, limit = WindowHashes(training.window), np.uint64((2**64 - 1) // max(len(log) // MAX_COMPARED, 1))
    rows, done, found = list[Any](), 0, list[Any]()
    for block in log.blocks():
        hashes = windows.next(row_hashes(chosen_rows(block) if log.sparse else chosen_features(block), block.rewards))
        done += len(block)
        compared = training.sampled(hashes) & (hashes <= limit)
        rows.append(np.arange(done - len(hashes), done)[compared])
        found.append(hashes[compared])
    hashes, first_rows = np.unique(np.concatenate(found), return_index=True)
    if not len(hashes):
        return None
    order = np.argsort(first_rows)
    last, seen = np.concatenate(rows)[first_rows[order]], np.isin(hashes, training.hashes)[order]
    if seen.sum() < MIN_SEEN or seen.mean() < MIN_SHARE:
        return None
    return SeenRows(float(seen.mean()), _first_new(last, seen, done - training.window + 1, len(log)))


def _first_new(last: Any, seen: Any, windows: int, count: int) -> int | None:
    """The first row after all that were learned, from the last row of each compared window; None if rows are mixed."""
    wrong = np.cumsum(~seen) + seen[::-1].cumsum()[::-1] - seen  # new ones up to a window, learned ones after it
    at = int(np.argmin(wrong))
    new_before, seen_after = int((~seen[: at + 1]).sum()), int(seen[at + 1 :].sum())
    first = int(last[at]) + 1 + int(MARGIN * (windows / len(seen) - 1.0))
    if new_before > MAX_WRONG * (at + 1) or seen_after > MAX_WRONG * max(len(seen) - at - 1, 1) or first >= count:
        return None
    return first


def check_not_learned(log: Log, targets: Mapping[str, Any]) -> None:
    """Raise InvalidInput if a Bandit among the targets has learned rows of the log."""
    for name, target in targets.items():
        seen = seen_rows(log, target) if isinstance(target, Bandit) else None
        if seen is not None:
            raise InvalidInput(_refusal(name or "the bandit", seen))


def first_new_row(log: Log, models: Mapping[str, Any]) -> int:
    """Return the first row of those that no Bandit has learned. Raises InvalidInput if they are not the last ones."""
    first = 0
    for name, model in models.items():
        seen = seen_rows(log, model) if isinstance(model, Bandit) else None
        if seen is not None:
            if seen.first_new is None:
                raise InvalidInput(_refusal(name, seen))
            first = max(first, seen.first_new)
    return first


def _refusal(name: str, seen: SeenRows) -> str:
    """The sentence for a model that has learned rows."""
    which = "on later rows" if seen.first_new is None else f"on the rows from index {seen.first_new} on"
    return (
        f"{name} has learned {seen.share:.0%} of these rows, so its value on them would be too high. Evaluate it "
        f"{which}, or its policy, which then learns a part of the log"
    )
