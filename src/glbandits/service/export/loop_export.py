"""Export the decisions of a loop, with their features, to Parquet files: for off-policy evaluation and other tools."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from glbandits.common.arrays import Floats
from glbandits.common.atomic_files import atomic_path
from glbandits.common.errors import InvalidInput, lookup
from glbandits.common.export_manifest import MANIFEST, METRIC, ExportedFile, Manifest, RunningPolicy
from glbandits.common.extras import needed_for
from glbandits.features import Hashing
from glbandits.maths.links import find_link
from glbandits.maths.sparse_rows import SparseRows
from glbandits.policies.contract import settings_of
from glbandits.service.domain.decision_totals import baseline_of
from glbandits.service.domain.events import Mode, SettledDecision
from glbandits.service.domain.groups.experiment import MetricSettings
from glbandits.service.domain.groups.unit_outcomes import combined
from glbandits.service.domain.loop_config import SECOND, LoopConfig
from glbandits.service.domain.request_features import (
    Arms,
    RequestEncoder,
    RequestHashing,
    RequestMap,
    arms_of,
    encoder_of,
    fields_of,
    rows_of,
    width_of,
)
from glbandits.service.domain.reward_aggregation import reward_of
from glbandits.service.export.unit_export import export_units, write_frame
from glbandits.service.runtime.loops.loop_documents import CONFIGURATION, latest_base
from glbandits.service.runtime.service import microseconds
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.loop_store import IDENTITY

if TYPE_CHECKING:
    import polars as pl

LEARNED = (Mode.ONLINE, Mode.APPRENTICE)
"""Modes whose decisions the model learns."""
BATCH = 1_000
"""Decisions that are read from the store at once."""
VALUES_PER_FILE = 2**23
"""Approximate number of feature values per file: 67 MB before compression. The log may be larger than memory."""


class _Row(NamedTuple):
    columns: dict[str, Any]
    """The columns other than the next two."""
    probabilities: Floats
    features: Arms

    @property
    def size(self) -> int:
        """The number of feature values, and the bytes of all fields as such numbers."""
        values = self.features.values if isinstance(self.features, SparseRows) else self.features
        texts = [self.columns["context"] or "", *(self.columns["action_fields"] or [])]
        return int(values.size) + sum(map(len, texts)) // 8


def check_loop(store: EventStore, loop_name: str) -> None:
    """Raise UnknownName unless a store has this loop."""
    lookup("loop", loop_name, dict.fromkeys(store.names_with(IDENTITY)))


def export_loop(
    store: EventStore,
    loop: str,
    folder: Path,
    modes: Collection[Mode] = LEARNED,
    *,
    with_fields: bool = True,
) -> Manifest:
    """Export the settled decisions of a loop, with the features that the present model of the loop uses.

    `glbandits.evaluation.read_export(folder)` reads the files. They are written atomically, the manifest last.
    docs/evaluate.md describes the columns.

    Args:
        store: the event store.
        loop: the name of the loop.
        folder: a new or empty folder.
        modes: modes of the decisions. Decisions of the mode LoggingOnly have probability 0 for all actions but the
            baseline, so importance-weighted estimators cannot use them. A reward model can.
        with_fields: whether to export the fields of the requests. They may contain personal data.
    """
    with needed_for("an export to Parquet files", "serve"):
        import polars  # noqa: F401
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(
            f"an export needs a new or empty folder; {folder} is a file or has files. Name another folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    base, now = latest_base(store, loop), microseconds()
    encoder = RequestHashing(Hashing()) if base is None else encoder_of(base)
    document = store.latest_document(loop, CONFIGURATION)
    configuration = None if document is None else msgspec.json.decode(document.body, type=LoopConfig)
    declared = {} if configuration is None else configuration.metrics
    files, part, size, count, last = list[ExportedFile](), list[_Row](), 0, 0, 0
    while batch := store.settled(loop, last, now, BATCH):
        for settled in batch:
            row = _row(settled, encoder, modes, with_fields=with_fields)
            if row is not None:
                row.columns.update(_numbers(settled, declared, now))
                part.append(row)
                size += row.size
            if size >= VALUES_PER_FILE:
                files.append(_write_rows(folder, part))
                part, size = [], 0
        count, last = count + len(batch), batch[-1].sequence
    if part:
        files.append(_write_rows(folder, part))
    written = sum(file.rows for file in files)
    units, metrics = export_units(store, loop, folder)
    manifest = Manifest(
        loop=loop,
        rows=written,
        left_out=count - written,
        last_sequence=last,
        open=store.count_after(loop, last),
        files=files,
        sparse_width=encoder.width if encoder.sparse else None,
        feature_map=encoder.features.document() if isinstance(encoder, RequestMap) else None,
        running=None if configuration is None else _running_policy(configuration),
        units=units,
        metrics=metrics,
    )
    content = msgspec.json.format(msgspec.json.encode(manifest))
    with atomic_path(folder / MANIFEST) as temporary:
        temporary.write_bytes(content)
    return manifest


def _running_policy(configuration: LoopConfig) -> RunningPolicy:
    policy = configuration.build_policy()
    settings, defaults = settings_of(policy), settings_of(type(policy)())
    changed = {name: value for name, value in settings.items() if name != "link" and value != defaults[name]}
    listed = ",".join(f"{name}={value!r}" for name, value in changed.items())
    return RunningPolicy(
        text=f"{configuration.policy}:{listed}" if listed else configuration.policy,
        link=find_link(policy.link).name,
        exploration=configuration.exploration,
        reward_range=configuration.reward_limits(),
    )


def _row(
    settled: SettledDecision, encoder: RequestEncoder, modes: Collection[Mode], *, with_fields: bool
) -> _Row | None:
    """Return the row of a decision; None if it has no final reward, another mode or another number of features."""
    decision, baseline = settled.decision, baseline_of(settled.decision)
    reward = reward_of(replace(settled, decision=replace(decision, mode=Mode.ONLINE)))  # in any mode
    if reward is None or decision.mode not in modes or width_of(decision, encoder) != encoder.width:
        return None
    # An excluded action is no arm of the row, because another policy could not have chosen it either.
    allowed = [i for i in range(len(decision.actions)) if i not in decision.excluded or i == decision.shown]
    allowed.sort(key=lambda index: index != baseline)
    shown = decision.shown_probabilities()
    probabilities = [shown[i] for i in allowed]
    fields = fields_of(decision) if with_fields else None
    columns = {
        "number": settled.sequence,
        "event_id": decision.event_id,
        "slot": decision.slot,
        "at": decision.timestamp,
        "mode": decision.mode.value,
        "unit": decision.unit,
        "group": decision.group,
        "control_share": decision.control_share,
        "fallback": decision.fallback,
        "repeats": decision.repeats,
        "model": decision.learned_through,
        "actions": [decision.actions[i] for i in allowed],
        "values": decision.values and [decision.values[i] for i in allowed],
        "costs": decision.values and [decision.costs[i] if decision.costs else 0.0 for i in allowed],
        "arm": allowed.index(decision.shown),
        "propensity": decision.probability,
        "reward": reward,
        "context": None if fields is None else fields[0],
        "action_fields": None if fields is None else [fields[1][i] for i in allowed],
    }
    return _Row(columns, np.array(probabilities), rows_of(arms_of(decision, encoder), np.array(allowed)))


def _numbers(settled: SettledDecision, declared: Mapping[str, MetricSettings], now: int) -> dict[str, float | None]:
    """Return the number of a decision for each metric, from those in the window after the decision.

    If none came, it is `MetricSettings.value_if_missing`. It is None while the window is open.
    """
    found = dict[str, float | None]()
    for name, settings in declared.items():
        closes = settled.decision.timestamp + round(settings.seconds * SECOND)
        numbers = [each.value for each in settled.metrics if each.metric == name and each.timestamp <= closes]
        came = [value for value in numbers if value is not None]
        number = combined(came, settings.combine) if came else settings.value_if_missing
        found[METRIC + name] = None if closes >= now else number
    return found


def _write_rows(folder: Path, rows: list[_Row]) -> ExportedFile:
    return write_frame(folder / f"decisions-{rows[0].columns['number']:015d}.parquet", _frame(rows))


def _frame(rows: list[_Row]) -> "pl.DataFrame":
    import polars as pl

    # The first row shows the types of the other columns.
    kinds: dict[str, Any] = {"context": pl.String, "action_fields": pl.List(pl.String), "group": pl.String}
    numbers = [name for name in rows[0].columns if name.startswith(METRIC)]
    kinds |= dict.fromkeys(("propensity", "reward", *numbers), pl.Float64) | dict.fromkeys(
        ("values", "costs"), pl.List(pl.Float64)
    )
    plain = pl.DataFrame([row.columns for row in rows], schema_overrides=kinds, infer_schema_length=1)
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
