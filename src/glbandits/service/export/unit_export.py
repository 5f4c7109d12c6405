"""Export the units that a loop has counted in its comparison of treatment with control."""

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from glbandits.common.atomic_files import atomic_path
from glbandits.common.export_manifest import ComparedMetric, ExportedFile
from glbandits.service.domain.events import Group
from glbandits.service.runtime.loops.guardrails import LoopGuardrails
from glbandits.service.runtime.loops.unit_counter import read_units
from glbandits.service.runtime.service import microseconds
from glbandits.service.storage.event_store import EventStore

if TYPE_CHECKING:
    import polars as pl

UNITS = "units.parquet"
PAGE = 256
"""Units that are read from the store at once."""


def export_units(
    store: EventStore, loop_name: str, folder: Path
) -> tuple[ExportedFile | None, dict[str, ComparedMetric]]:
    """Write a row for each unit and metric that the loop has counted, in the order of first decisions.

    Returns the file, None if no unit is counted, and the settings of the metrics.
    """
    import polars as pl

    schema: dict[str, Any] = {
        "metric": pl.String,
        "number": pl.Int64,
        "at": pl.Int64,
        "group": pl.String,
        "share": pl.Float64,
        "value": pl.Float64,
        "predicted": pl.List(pl.Float64),
    }
    compared = LoopGuardrails(loop_name, store, microseconds).state.metrics
    counted = {name: own.difference().units for name, own in compared.items()}
    frames, last = list[pl.DataFrame](), 0
    end = max((own.after for own in compared.values()), default=0)
    while last < end and (starts := store.units_after(loop_name, last, PAGE)):
        rows = []
        for first, unit in read_units(store, starts).items():
            for name, own in compared.items():
                outcome = unit.outcome(name, own.settings) if first <= own.after else None
                if outcome is not None:
                    low, high = own.settings.range
                    number = unit.number(name, own.settings)
                    value = None if number is None else min(max(number, low), high)
                    group = Group.TREATMENT if outcome.treated else Group.CONTROL
                    since = unit.start.since
                    rows.append((name, first, since, group.value, outcome.share, value, list(outcome.predicted)))
        frames.append(pl.DataFrame(rows, schema=schema, orient="row"))
        last = starts[-1].first
    table, parts = pl.concat([pl.DataFrame(schema=schema, orient="row"), *frames]), []
    for name, own in compared.items():
        # A comparison may have started again, so the last units are counted; those of the open block are not.
        last_units = table.filter(pl.col("metric") == name).tail(counted[name] + len(own.open_block))
        parts.append(last_units.head(len(last_units) - len(own.open_block)))
    metrics = {name: ComparedMetric(msgspec.to_builtins(own.settings), counted[name]) for name, own in compared.items()}
    file = write_frame(folder / UNITS, pl.concat(parts)) if any(map(len, parts)) else None
    return file, metrics


def write_frame(path: Path, frame: "pl.DataFrame") -> ExportedFile:
    """Write a Parquet file atomically, and return its entry in the manifest."""
    with atomic_path(path) as temporary:
        frame.write_parquet(temporary, compression="zstd")
        return ExportedFile(path.name, len(frame), sha256(temporary.read_bytes()).hexdigest())
