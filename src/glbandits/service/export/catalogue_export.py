"""Export the catalogue decisions of a loop, with the propensity and the features of the shown arm."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.export_manifest import Manifest
from glbandits.maths.sparse_rows import SparseRows
from glbandits.service.domain.events import Decision, Mode, SettledDecision
from glbandits.service.domain.request_features import DENSE, RequestEncoder, arms_of, encoder_of, vectors_of
from glbandits.service.export.loop_export import LEARNED, final_reward
from glbandits.service.export.parquet_export import write_export
from glbandits.service.runtime.loops.loop_documents import latest_base
from glbandits.service.runtime.service import microseconds
from glbandits.service.storage.event_store import EventStore

if TYPE_CHECKING:
    import polars as pl


class _Row(NamedTuple):
    sequence: int
    event_id: str
    timestamp: int
    mode: str
    model: int
    catalogue: int
    arms: int
    arm: str
    propensity: float
    reward: float
    baseline: str | None
    baseline_probability: float | None
    features: Floats

    @property
    def size(self) -> int:
        """The number of feature values."""
        return int(self.features.size)


def export_catalogue(store: EventStore, loop: str, folder: Path, modes: Collection[Mode] = LEARNED) -> Manifest:
    """Write the catalogue decisions of a loop, a row each, to a new or empty folder.

    `glbandits.evaluation.read_parquet(folder, Columns())` reads the rows as a log of named arms. Columns:
    `arm` is the id of the shown arm, and `propensity` its probability. `baseline` and `baseline_probability` are set if
    the request named a baseline. `catalogue` is the version of the catalogue, and `arms` the number of its arms.
    `features` are those of the shown arm only. The choices of another policy cannot be computed from these rows,
    because that needs the features of all arms.
    """
    base = latest_base(store, loop)
    encoder = None if base is None else encoder_of(base)

    def rows(decisions: Iterable[SettledDecision]) -> Iterator[_Row]:
        for settled in decisions:
            decision, reward = settled.decision, final_reward(settled)
            features = None if decision.catalogue is None or encoder is None else _features(decision, encoder)
            if decision.catalogue is None or decision.mode not in modes or reward is None or features is None:
                continue
            has_baseline = decision.baseline is not None
            yield _Row(
                sequence=settled.sequence,
                event_id=decision.event_id,
                timestamp=decision.timestamp,
                mode=decision.mode.value,
                model=decision.learned_through,
                catalogue=decision.catalogue.version,
                arms=decision.catalogue.arms,
                arm=decision.actions[decision.shown],
                propensity=decision.probability,
                reward=reward,
                baseline=decision.actions[0] if has_baseline else None,
                baseline_probability=_baseline_probability(settled) if has_baseline else None,
                features=features,
            )

    return write_export(store, loop, folder, now=microseconds(), make_rows=rows, frame_of=_frame)


def _features(decision: Decision, encoder: RequestEncoder) -> Floats | None:
    """Return the features of the shown arm; None if the loop has a sparse model now, whose features differ."""
    arms = vectors_of(decision) if decision.encoding == DENSE else arms_of(decision, encoder)
    return None if isinstance(arms, SparseRows) else np.asarray(arms[decision.shown])


def _baseline_probability(settled: SettledDecision) -> float:
    """Return the probability with which the baseline was shown: 1 in modes that always show it."""
    return settled.decision.probabilities[0] if settled.decision.mode is Mode.ONLINE else 1.0


def _frame(rows: list[_Row]) -> "pl.DataFrame":
    import polars as pl

    schema = {  # `number` and `at` are the fields sequence and timestamp
        "number": pl.Int64,
        "event_id": pl.String,
        "at": pl.Int64,
        "mode": pl.String,
        "model": pl.Int64,
        "catalogue": pl.Int64,
        "arms": pl.Int64,
        "arm": pl.String,
        "propensity": pl.Float64,
        "reward": pl.Float64,
        "baseline": pl.String,
        "baseline_probability": pl.Float64,
    }
    plain = pl.DataFrame([row[:-1] for row in rows], schema=schema, orient="row")
    return plain.with_columns(pl.Series("features", [row.features for row in rows], dtype=pl.List(pl.Float64)))
