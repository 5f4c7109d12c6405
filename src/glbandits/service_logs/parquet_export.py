"""The log of a loop as Parquet files, for the off-policy commands and for anyone's tools."""

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np

from glbandits.atomic_files import atomic_path
from glbandits.errors import InvalidInput
from glbandits.extras import needed_for
from glbandits.maths.sparse_rows import SparseRows
from glbandits.records import Floats
from glbandits.serving.domain.arm_rows import Arms, rows_of
from glbandits.serving.domain.events import Decision, Mode, SettledDecision
from glbandits.serving.domain.reward_aggregates import baseline_of
from glbandits.serving.storage.event_store import EventStore

if TYPE_CHECKING:
    import polars as pl

FeaturesOf: TypeAlias = Callable[[Decision], Arms | None]
"""The features of a decision's actions, (K, d) or sparse rows; None to leave the decision out."""
RewardOf: TypeAlias = Callable[[SettledDecision], float | None]
"""What a decision earned in the end; None to leave it out."""

MANIFEST = "manifest.json"
BATCH = 1_000
"""Decisions that are read from the store together."""
NUMBERS_OF_FILE = 2**23
"""Features of a file, about: 67 MB before compression. Log and files may be larger than memory."""


class ExportedFile(msgspec.Struct, frozen=True):
    """One of the files."""

    name: str
    rows: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was exported. It is written last: where it is, the export is whole."""

    loop: str
    rows: int
    left_out: int
    """Decisions without a reward or features, such as deferred ones that were never activated."""
    last_sequence: int = msgspec.field(name="last_number")
    """Of the last decision that was looked at; 0 if there was none."""
    files: list[ExportedFile]
    sparse_width: int | None = None
    """The number of features that exist, if the rows are sparse."""


class ExportedRow(Protocol):
    """A row of any export."""

    @property
    def sequence(self) -> int:
        """Of the decision."""

    @property
    def features(self) -> Arms:
        """The numbers of the row that take the most room."""


Row = TypeVar("Row", bound=ExportedRow)


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
    probabilities: Floats
    features: Arms


def export_parquet(
    store: EventStore,
    loop: str,
    folder: str | PathLike[str],
    *,
    now: int,
    features_of: FeaturesOf,
    reward_of: RewardOf,
    sparse_width: int | None = None,
) -> Manifest:
    """Write the decisions whose wait was over at `now`, a row each, to a new or empty folder.

    `glbandits.evaluation.read_parquet(folder, Columns(features="features"))` reads them: `features` has a list for each
    action that could be chosen, the baseline first, `arm` is the index of the shown one in it, `propensity` the
    probability that it had, `probabilities` those of all of them, `actions` their ids. `mode` says who decided: where
    it is not Online the baseline was shown whatever was drawn, with probability 1. `at` is in microseconds since 1970.
    No file is ever seen half written.

    With `sparse_width`, the number of features that exist, `features_of` returns sparse rows, and three columns take
    the place of `features`: `feature_counts` has the number of features of each action, `feature_indices` and
    `feature_values` those of all its actions, one action after the other. `open_export` reads both forms.
    """
    return write_export(
        store,
        loop,
        folder,
        now=now,
        make_rows=lambda decisions: _rows(decisions, features_of, reward_of),
        frame_of=_frame,
        sparse_width=sparse_width,
    )


def write_export(
    store: EventStore,
    loop: str,
    folder: str | PathLike[str],
    *,
    now: int,
    make_rows: Callable[[Iterable[SettledDecision]], Iterator[Row]],
    frame_of: Callable[[list[Row]], "pl.DataFrame"],
    sparse_width: int | None = None,
) -> Manifest:
    """Write rows of the decisions whose wait was over at `now` to files in a new or empty folder."""
    with needed_for("an export to Parquet files", "lab"):
        import polars  # noqa: F401
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInput(f"an export must go to a new or empty folder; {target} is none")
    target.mkdir(parents=True, exist_ok=True)
    seen = _Seen()
    rows = make_rows(seen.watch(_all_settled(store, loop, now)))
    files = [_write_rows(target, part[0].sequence, len(part), frame_of(part)) for part in _parts(rows)]
    written = sum(file.rows for file in files)
    manifest = Manifest(
        loop=loop,
        rows=written,
        left_out=seen.count - written,
        last_sequence=seen.last,
        files=files,
        sparse_width=sparse_width,
    )
    content = msgspec.json.format(msgspec.json.encode(manifest))
    _put_in_place(target / MANIFEST, lambda path: path.write_bytes(content))
    return manifest


def _all_settled(store: EventStore, loop: str, now: int) -> Iterator[SettledDecision]:
    after = 0
    while batch := store.settled(loop, after, now, BATCH):
        yield from batch
        after = batch[-1].sequence


class _Seen:
    """Counts what passes by."""

    count, last = 0, 0

    def watch(self, decisions: Iterable[SettledDecision]) -> Iterator[SettledDecision]:
        for each in decisions:
            self.count, self.last = self.count + 1, each.sequence
            yield each


def _rows(decisions: Iterable[SettledDecision], features_of: FeaturesOf, reward_of: RewardOf) -> Iterator[_Row]:
    width: int | None = None
    for each in decisions:
        reward = reward_of(each)
        features = None if reward is None else features_of(each.decision)
        if reward is None or features is None:
            continue
        if isinstance(features, SparseRows):
            yield _row(each, features, reward)
            continue
        width = width or features.shape[1]
        if features.shape[1] != width:
            raise InvalidInput(
                f"all decisions must have as many features; event {each.decision.event_id!r} has {features.shape[1]}, "
                f"others {width}. Have features_of return None for those of another time"
            )
        yield _row(each, features, reward)


def _parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows of one file, and the next."""
    part: list[Row] = []
    size = 0
    for row in rows:
        part.append(row)
        size += row.features.values.size if isinstance(row.features, SparseRows) else row.features.size
        if size >= NUMBERS_OF_FILE:
            yield part
            part, size = [], 0
    if part:
        yield part


def _row(settled: SettledDecision, features: Arms, reward: float) -> _Row:
    decision, baseline = settled.decision, baseline_of(settled.decision)
    # What could not be chosen is no arm of the row: another policy could not have chosen it either.
    allowed = [i for i in range(len(decision.actions)) if i not in decision.excluded or i == decision.shown]
    allowed.sort(key=lambda index: index != baseline)
    return _Row(
        sequence=settled.sequence,
        event_id=decision.event_id,
        slot=decision.slot,
        timestamp=decision.timestamp,
        mode=decision.mode.value,
        model=decision.model,
        actions=[decision.actions[i] for i in allowed],
        arm=allowed.index(decision.shown),
        propensity=decision.probability,
        reward=reward,
        probabilities=_probabilities(decision)[allowed],
        features=rows_of(features, np.array(allowed)),
    )


def _probabilities(decision: Decision) -> Floats:
    """The probability that each action had to be shown, (K,). Modes other than Online always show the baseline."""
    if decision.mode is Mode.ONLINE:
        return np.array(decision.probabilities)
    return np.array([float(index == decision.shown) for index in range(len(decision.actions))])


def _write_rows(folder: Path, first: int, rows: int, frame: "pl.DataFrame") -> ExportedFile:
    path = folder / f"decisions-{first:015d}.parquet"
    digest = _put_in_place(path, lambda beside: frame.write_parquet(beside, compression="zstd"))
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
        made = zip(columns.items(), types, strict=True)
        return plain.with_columns(pl.Series(name, arrays).cast(kind) for (name, arrays), kind in made)
    # By way of arrays: lists of lists of Python's numbers would take twenty times as long.
    arms = pl.DataFrame(
        {
            "row": np.repeat(np.arange(len(rows)), [len(row.probabilities) for row in rows]),
            "probabilities": np.concatenate([row.probabilities for row in rows]),
            "features": np.concatenate([row.features for row in rows]),
        }
    )
    lists = arms.group_by("row", maintain_order=True).agg("probabilities", pl.col("features").cast(pl.List(pl.Float64)))
    return plain.with_columns(lists["probabilities"], lists["features"])


def _put_in_place(path: Path, write: Callable[[Path], Any]) -> str:
    """Write a file atomically; return the SHA-256 of its content."""
    with atomic_path(path) as temporary:
        write(temporary)
        return sha256(temporary.read_bytes()).hexdigest()
