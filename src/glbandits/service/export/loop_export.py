"""Export the decisions of a loop, with their features, to Parquet files."""

from collections.abc import Collection
from pathlib import Path

from msgspec.structs import replace

from glbandits.common.export_manifest import Manifest
from glbandits.features import Hashing
from glbandits.service.domain.events import Decision, Mode, SettledDecision
from glbandits.service.domain.request_features import (
    Arms,
    RequestHashing,
    RequestMap,
    arms_of,
    encoder_of,
    fields_of,
    width_of,
)
from glbandits.service.domain.reward_aggregation import reward_of
from glbandits.service.export.parquet_export import export_parquet
from glbandits.service.runtime.loops.loop_documents import latest_base
from glbandits.service.runtime.service import microseconds
from glbandits.service.storage.event_store import EventStore

LEARNED = (Mode.ONLINE, Mode.APPRENTICE)
"""Modes whose decisions the model learns."""


def export_loop(
    store: EventStore,
    loop: str,
    folder: Path,
    modes: Collection[Mode] = LEARNED,
    *,
    with_fields: bool = True,
) -> Manifest:
    """Export the decisions of a loop, with the features that the present model of the loop uses.

    Args:
        store: the event store.
        loop: the name of the loop.
        folder: a new or empty folder.
        modes: modes of the decisions. Decisions of the mode LoggingOnly have probability 0 for all actions but the
            baseline, so importance-weighted estimators cannot use them. A reward model can.
        with_fields: whether to export the fields of the requests. They may contain personal data.
    """
    base = latest_base(store, loop)
    encoder = RequestHashing(Hashing()) if base is None else encoder_of(base)

    def features_of(decision: Decision) -> Arms | None:
        has_features = width_of(decision, encoder) == encoder.width
        if not has_features or decision.mode not in modes:
            return None
        return arms_of(decision, encoder)

    return export_parquet(
        store,
        loop,
        folder,
        now=microseconds(),
        features_of=features_of,
        reward_of=_final_reward,
        fields_of=fields_of if with_fields else lambda _: None,
        sparse_width=encoder.width if encoder.sparse else None,
        feature_map=encoder.features.document() if isinstance(encoder, RequestMap) else None,
    )


def _final_reward(settled: SettledDecision) -> float | None:
    """Return the final reward of a decision, in any mode; None if it has none."""
    return reward_of(replace(settled, decision=replace(settled.decision, mode=Mode.ONLINE)))
