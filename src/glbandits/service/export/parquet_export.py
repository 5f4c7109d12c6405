"""Write the log of a loop to Parquet files, for off-policy evaluation and other tools."""

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.atomic_files import atomic_path
from glbandits.common.errors import InvalidInput
from glbandits.common.export_manifest import MANIFEST, ExportedFile, Manifest
from glbandits.common.extras import needed_for
from glbandits.maths.sparse_rows import SparseRows
from glbandits.service.domain.decision_totals import baseline_of
from glbandits.service.domain.events import Decision, Mode, SettledDecision
from glbandits.service.domain.request_features import Arms, rows_of
from glbandits.service.storage.event_store import EventStore

if TYPE_CHECKING:
    import polars as pl

FeaturesOf: TypeAlias = Callable[[Decision], Arms | None]
"""The features of a decision's actions, (K, d) or sparse rows; None to leave the decision out."""
FieldsOf: TypeAlias = Callable[[Decision], tuple[str, list[str]] | None]
"""The fields of a request as JSON: those that all actions share, and those of each action; None if it has none."""
RewardOf: TypeAlias = Callable[[SettledDecision], float | None]
"""The final reward of a decision; None to leave the decision out."""

BATCH = 1_000
"""Decisions that are read from the store at once."""
VALUES_PER_FILE = 2**23
"""Approximate number of feature values per file: 67 MB before compression. The log may be larger than memory."""


class _Row(NamedTuple):
    sequence: int
    event_id: str
    slot: str
    timestamp: int
    mode: str
    model: int
    actions: list[str]
    arm: int
    propensity: float
    reward: float
    context: str | None
    action_fields: list[str] | None
    probabilities: Floats
    features: Arms

    @property
    def size(self) -> int:
        """The number of feature values, and the bytes of all fields as such numbers."""
        values = self.features.values if isinstance(self.features, SparseRows) else self.features
        return int(values.size) + sum(map(len, [self.context or "", *(self.action_fields or [])])) // 8


def export_parquet(
    store: EventStore,
    loop: str,
    folder: str | PathLike[str],
    *,
    now: int,
    features_of: FeaturesOf,
    reward_of: RewardOf,
    fields_of: FieldsOf = lambda _: None,
    sparse_width: int | None = None,
    feature_map: dict[str, Any] | None = None,
) -> Manifest:
    """Write the decisions that are settled at `now`, a row each, to a new or empty folder.

    `glbandits.evaluation.read_export(folder)` reads the rows. Columns: `features` has a list of numbers for each action
    that could be chosen, the baseline first. `actions` are the ids of these actions, and `probabilities` their
    probabilities. `arm` is the index of the shown action, and `propensity` its probability. `context` is the JSON of
    the fields that all actions share, and `action_fields` that of the fields of each action; both are null if a request
    has numbers instead of fields. `mode` is the mode of the loop: in modes other than Online the baseline was shown
    with probability 1. `number` is the sequence number, and `at` the timestamp in microseconds since 1970. Files are
    written atomically.

    With `sparse_width`, the number of possible features, `features_of` returns sparse rows, and three columns replace
    `features`: `feature_counts` has the number of features of each action, `feature_indices` and `feature_values`
    those of all actions, one action after the other. `feature_map` is the map that encoded the fields.
    """
    with needed_for("an export to Parquet files", "lab"):
        import polars  # noqa: F401
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInput(
            f"an export needs a new or empty folder; {target} is a file or has files. Name another folder"
        )
    target.mkdir(parents=True, exist_ok=True)
    counter = _DecisionCounter()
    decisions = counter.counted(_all_settled(store, loop, now))
    parts = _parts(_rows(decisions, features_of, reward_of, fields_of))
    files = [_write_rows(target, part[0].sequence, len(part), _frame(part)) for part in parts]
    written = sum(file.rows for file in files)
    manifest = Manifest(
        loop=loop,
        rows=written,
        left_out=counter.count - written,
        last_sequence=counter.last_sequence,
        open=store.count_after(loop, counter.last_sequence),
        files=files,
        sparse_width=sparse_width,
        feature_map=feature_map,
    )
    content = msgspec.json.format(msgspec.json.encode(manifest))
    _write_atomically(target / MANIFEST, lambda path: path.write_bytes(content))
    return manifest


def _all_settled(store: EventStore, loop: str, now: int) -> Iterator[SettledDecision]:
    after = 0
    while batch := store.settled(loop, after, now, BATCH):
        yield from batch
        after = batch[-1].sequence


class _DecisionCounter:
    """Counts the decisions of an iterator while they are read."""

    count, last_sequence = 0, 0

    def counted(self, decisions: Iterable[SettledDecision]) -> Iterator[SettledDecision]:
        for decision in decisions:
            self.count, self.last_sequence = self.count + 1, decision.sequence
            yield decision


def _rows(
    decisions: Iterable[SettledDecision], features_of: FeaturesOf, reward_of: RewardOf, fields_of: FieldsOf
) -> Iterator[_Row]:
    width: int | None = None
    for settled in decisions:
        reward = reward_of(settled)
        features = None if reward is None else features_of(settled.decision)
        if reward is None or features is None:
            continue
        if isinstance(features, SparseRows):
            yield _row(settled, features, reward, fields_of(settled.decision))
            continue
        width = width or features.shape[1]
        if features.shape[1] != width:
            raise InvalidInput(
                f"all decisions must have the same number of features; event {settled.decision.event_id!r} has "
                f"{features.shape[1]}, others have {width}. Let features_of return None for such decisions"
            )
        yield _row(settled, features, reward, fields_of(settled.decision))


def _parts(rows: Iterable[_Row]) -> Iterator[list[_Row]]:
    """Yield the rows of each file."""
    part: list[_Row] = []
    size = 0
    for row in rows:
        part.append(row)
        size += row.size
        if size >= VALUES_PER_FILE:
            yield part
            part, size = [], 0
    if part:
        yield part


def _row(settled: SettledDecision, features: Arms, reward: float, fields: tuple[str, list[str]] | None) -> _Row:
    decision, baseline = settled.decision, baseline_of(settled.decision)
    # An excluded action is no arm of the row, because another policy could not have chosen it either.
    allowed = [i for i in range(len(decision.actions)) if i not in decision.excluded or i == decision.shown]
    allowed.sort(key=lambda index: index != baseline)
    return _Row(
        sequence=settled.sequence,
        event_id=decision.event_id,
        slot=decision.slot,
        timestamp=decision.timestamp,
        mode=decision.mode.value,
        model=decision.learned_through,
        actions=[decision.actions[i] for i in allowed],
        arm=allowed.index(decision.shown),
        propensity=decision.probability,
        reward=reward,
        context=None if fields is None else fields[0],
        action_fields=None if fields is None else [fields[1][i] for i in allowed],
        probabilities=_probabilities(decision)[allowed],
        features=rows_of(features, np.array(allowed)),
    )


def _probabilities(decision: Decision) -> Floats:
    """Return the probability of each action, (K,). Modes other than Online always show the baseline."""
    if decision.mode is Mode.ONLINE:
        return np.array(decision.probabilities)
    return np.array([float(index == decision.shown) for index in range(len(decision.actions))])


def _write_rows(folder: Path, first: int, rows: int, frame: "pl.DataFrame") -> ExportedFile:
    path = folder / f"decisions-{first:015d}.parquet"
    digest = _write_atomically(path, lambda temporary: frame.write_parquet(temporary, compression="zstd"))
    return ExportedFile(path.name, rows, digest)


def _frame(rows: list[_Row]) -> "pl.DataFrame":
    import polars as pl

    plain = pl.DataFrame(
        [row[:-2] for row in rows],
        schema={
            "number": pl.Int64,
            "event_id": pl.String,
            "slot": pl.String,
            "at": pl.Int64,
            "mode": pl.String,
            "model": pl.Int64,
            "actions": pl.List(pl.String),
            "arm": pl.Int64,
            "propensity": pl.Float64,
            "reward": pl.Float64,
            "context": pl.String,
            "action_fields": pl.List(pl.String),
        },
        orient="row",
    )
    sparse = [row.features for row in rows if isinstance(row.features, SparseRows)]
    if sparse:
        columns = {
            "probabilities": [row.probabilities for row in rows],
            "feature_counts": [np.diff(features.indptr) for features in sparse],
            "feature_indices": [features.indices for features in sparse],
            "feature_values": [features.values for features in sparse],
        }
        types = [pl.List(pl.Float64), pl.List(pl.Int64), pl.List(pl.Int64), pl.List(pl.Float64)]
        typed = zip(columns.items(), types, strict=True)
        return plain.with_columns(pl.Series(name, arrays).cast(kind) for (name, arrays), kind in typed)
    # Built from arrays, because lists of lists of Python numbers take twenty times as long.
    arms = pl.DataFrame(
        {
            "row": np.repeat(np.arange(len(rows)), [len(row.probabilities) for row in rows]),
            "probabilities": np.concatenate([row.probabilities for row in rows]),
            "features": np.concatenate([row.features for row in rows]),
        }
    )
    lists = arms.group_by("row", maintain_order=True).agg("probabilities", pl.col("features").cast(pl.List(pl.Float64)))
    return plain.with_columns(lists["probabilities"], lists["features"])


def _write_atomically(path: Path, write: Callable[[Path], Any]) -> str:
    """Write a file atomically; return the SHA-256 of its content."""
    with atomic_path(path) as temporary:
        write(temporary)
        return sha256(temporary.read_bytes()).hexdigest()
