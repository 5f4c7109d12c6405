"""`glb store models`: list the saved models of a service, and replace the model of a loop.

Each replacement starts a new epoch, which running servers adopt at their next update, so `glb store verify`
stays exact.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.common_options import LoopOption, StoreOption
from glbandits.cli.printed_table import print_table
from glbandits.common.display.data_table import DataTable
from glbandits.common.errors import InvalidInput, ModelFileError, lookup
from glbandits.service.domain.model_snapshots import decode_snapshot, load_snapshot
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.loops.loop_documents import BASE
from glbandits.service.runtime.service import DEFAULT_LOOP, microseconds
from glbandits.service.server_settings import DEFAULTS
from glbandits.service.storage.document_store import MAX_SEQUENCE, SavedModel
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.loop_store import IDENTITY
from glbandits.service.storage.open_store import open_existing_store


def list_command(store: StoreOption = DEFAULTS["store"]) -> None:
    """List the saved models of all loops, the newest first, and the model with which the present epoch started."""
    columns = ("loop", "number", "epoch", "saved", "bytes", "can be loaded")
    rows: list[tuple[str, ...]] = []
    with closing(open_existing_store(store)) as opened:
        for name in named_loops(opened, ()):
            for saved in _saved_models(opened, name):
                rows.append((name, str(saved.sequence), *_described(saved.timestamp, saved.body)))
            base = opened.latest_document(name, BASE)
            if base is not None:
                rows.append((name, "start of epoch", *_described(base.timestamp, base.body)))
    print_table(Console(), DataTable(columns, rows, columns))


def _saved_models(store: EventStore, loop_name: str) -> Iterator[SavedModel]:
    """Yield the saved models of a loop, the newest first. Reads one at a time, because they may be large."""
    last = MAX_SEQUENCE
    while (saved := store.model_at_most(loop_name, last)) is not None:
        yield saved
        last = saved.sequence - 1


def _described(timestamp: int, body: bytes) -> tuple[str, str, str, str]:
    """Return the epoch, the time, the size, and whether the model can be loaded."""
    epoch, state = "unknown", "yes"
    try:
        epoch = str(decode_snapshot(body).epoch)
        load_snapshot(body)
    except ModelFileError as error:
        state = f"no: {error}"
    saved_at = datetime.fromtimestamp(timestamp / 1e6, UTC).isoformat(sep=" ", timespec="seconds")
    return epoch, saved_at, f"{len(body):,}", state


def named_loops(store: EventStore, names: Sequence[str]) -> list[str]:
    """Return the loops of these names; without names, all loops of the store. Raises UnknownName for others."""
    known = {name: name for name in store.names_with(IDENTITY)}
    return [lookup("loop", name, known) for name in names or known]


@contextmanager
def opened_loop(address: str, name: str) -> Iterator[tuple[EventStore, Loop]]:
    """Open a store and one of its loops. Raises UnknownName if the store does not have the loop."""
    with closing(open_existing_store(address)) as store:
        named_loops(store, [name])  # a Loop would create it
        yield store, Loop(name, store, microseconds)


def print_epoch(loop: Loop) -> None:
    """Print which epoch starts, and when servers adopt it."""
    epoch, update = loop.published.epoch, f"{loop.configuration.model_update:g} s"
    typer.echo(f"Loop {loop.name}: epoch {epoch} starts with this model. Running servers adopt it within {update}.")


def use_command(
    number: Annotated[int, typer.Argument(help="The number of the model, as `glb store models list` shows it.")],
    store: StoreOption = DEFAULTS["store"],
    loop: LoopOption = DEFAULT_LOOP,
) -> None:
    """Replace the model of a loop by an older saved model. A server may run meanwhile.

    Decisions between the older and the present model are not learned again: they would give the present model again.
    `glb store relearn` learns them.
    """
    with opened_loop(store, loop) as (opened, found):
        saved = opened.model_at_most(loop, number)
        if saved is None or saved.sequence != number:
            raise InvalidInput(f"loop {loop} has no saved model {number}. `glb store models list` shows the numbers")
        found.import_model(decode_snapshot(saved.body).bandit)
        last = found.published.learned_through
        if last > number:
            typer.echo(f"Decisions {number + 1} to {last} are not learned again; learning continues after {last}.")
        print_epoch(found)
