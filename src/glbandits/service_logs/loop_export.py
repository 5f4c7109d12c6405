"""Export the decisions of a loop, with their features, to Parquet files."""

import math
from collections.abc import Collection
from pathlib import Path

from msgspec.structs import replace

from glbandits.features import Hashing
from glbandits.service_logs.parquet_export import Manifest, export_parquet
from glbandits.serving.domain.events import Decision, Mode, SettledDecision
from glbandits.serving.domain.request_features import Arms, RequestHashing, arms_of, encoder_of, width_of
from glbandits.serving.domain.reward_aggregation import reward_of
from glbandits.serving.runtime.replay.relearning import latest_base
from glbandits.serving.runtime.service import microseconds
from glbandits.serving.storage.event_store import EventStore

ALWAYS = (0, 2**62)
LEARNED = (Mode.ONLINE, Mode.APPRENTICE)
"""Modes whose decisions are learned."""


def export_loop(
    store: EventStore,
    loop: str,
    folder: Path,
    span: tuple[int, int] = ALWAYS,
    modes: Collection[Mode] = LEARNED,
    reward_limits: tuple[float, float] = (-math.inf, math.inf),
) -> Manifest:
    """Export the decisions of a loop from a span of time, with features as the model of the loop takes them now.

    Those of the mode LoggingOnly are there only if they are asked for: inverse propensities learn nothing from them, as
    every action but the baseline has probability 0. They do show what the baseline earned, for a reward model.
    Decisions from the catalogue are left out, because the log has not all of their arms: see `export_catalogue`.
    A reward beyond the limits, such as a sum of several, counts as the limit.
    """
    base = latest_base(store, loop)
    encoder = RequestHashing(Hashing()) if base is None else encoder_of(base)

    def features_of(decision: Decision) -> Arms | None:
        fits = decision.catalogue is None and width_of(decision, encoder) == encoder.width
        if not fits or decision.mode not in modes or not span[0] <= decision.timestamp < span[1]:
            return None
        return arms_of(decision, encoder)

    def limited(settled: SettledDecision) -> float | None:
        reward = earned(settled)
        return None if reward is None else min(max(reward, reward_limits[0]), reward_limits[1])

    return export_parquet(
        store,
        loop,
        folder,
        now=microseconds(),
        features_of=features_of,
        reward_of=limited,
        sparse_width=encoder.width if encoder.sparse else None,
    )


def earned(settled: SettledDecision) -> float | None:
    """What a decision earned, by the rules of learning, though a mode does not learn it."""
    return reward_of(replace(settled, decision=replace(settled.decision, mode=Mode.ONLINE)))
