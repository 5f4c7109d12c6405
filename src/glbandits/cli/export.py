"""`glb export`: the log of a server as Parquet files, which `glb evaluate` reads."""

from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec.structs import replace

from glbandits.errors import InvalidInput
from glbandits.features import Hashing
from glbandits.records import Floats
from glbandits.serving.domain.events import Decision, Mode, SettledDecision
from glbandits.serving.domain.loop_config import LoopConfig
from glbandits.serving.domain.request_features import DENSE, decision_arms
from glbandits.serving.domain.reward_aggregation import reward_of
from glbandits.serving.runtime.export import Manifest, export_parquet
from glbandits.serving.runtime.learning_loop import CONFIGURATION
from glbandits.serving.runtime.service import DEFAULT_LOOP, microseconds
from glbandits.serving.server_settings import DEFAULTS
from glbandits.serving.storage.event_store import EventStore
from glbandits.serving.storage.open_store import is_postgres, open_store

ALWAYS = (0, 2**62)
LEARNED = (Mode.ONLINE, Mode.APPRENTICE)
"""Modes whose decisions are learned."""


def export_command(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    store: Annotated[str, typer.Option(help="The file or postgresql:// address of the service's store.")] = DEFAULTS[
        "store"
    ],
    loop: Annotated[str, typer.Option(help="A loop of it.")] = DEFAULT_LOOP,
    mode: Annotated[list[Mode], typer.Option(help="Decisions of this mode, and of others if it is there again.")] = [  # noqa: B006
        *LEARNED
    ],
) -> None:
    """Write every decision whose wait is over, with its features, its chance and its reward, to Parquet files."""
    with closing(opened_store(store)) as kept:
        written = export_loop(kept, loop, folder, modes=mode)
    typer.echo(f"{folder}: {written.rows} decisions in {len(written.files)} files; {written.left_out} left out")
    typer.echo(f"Evaluate it with: glb evaluate {folder} --features features")


def opened_store(address: str) -> EventStore:
    """Open the store of a service. A file must exist."""
    if not is_postgres(address) and not Path(address).is_file():
        raise InvalidInput(f"there is no store {address}; name the file that `glb serve --store` uses")
    return open_store(address, durability="power")


def export_loop(
    store: EventStore,
    loop: str,
    folder: Path,
    span: tuple[int, int] = ALWAYS,
    modes: Collection[Mode] = LEARNED,
) -> Manifest:
    """Export the decisions of a loop from a span of time, with features of the width that the loop has now.

    Those of the mode LoggingOnly are there only if they are asked for: inverse propensities learn nothing from them, as
    no action but the baseline had a chance. What the baseline earned, for a model of rewards, they do tell.
    """
    kept = store.latest_document(loop, CONFIGURATION)
    width = (msgspec.json.decode(kept.body, type=LoopConfig) if kept else LoopConfig()).width
    hashing = Hashing(width=width)

    def features_of(decision: Decision) -> Floats | None:
        of_another_width = decision.encoding == DENSE and len(decision.request) != 8 * len(decision.actions) * width
        if of_another_width or decision.mode not in modes or not span[0] <= decision.timestamp < span[1]:
            return None
        return decision_arms(decision, hashing)

    return export_parquet(store, loop, folder, now=microseconds(), features_of=features_of, reward_of=_earned)


def _earned(settled: SettledDecision) -> float | None:
    """What a decision earned, by the rules of learning, though a mode does not learn it."""
    return reward_of(replace(settled, decision=replace(settled.decision, mode=Mode.ONLINE)))
