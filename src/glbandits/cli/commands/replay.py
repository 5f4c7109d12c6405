"""`glb replay`: repeat every decision of a service's log, and compare the results with the log."""

from contextlib import closing
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.progress import work_bar
from glbandits.service.domain.events import EventStatus
from glbandits.service.domain.model_snapshots import loadable_snapshot
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.runtime.service import DEFAULT_LOOP
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.open_store import open_existing_store


def replay_command(
    store: Annotated[str, typer.Argument(help="The SQLite file or postgresql:// address of a service's store.")],
    loop: Annotated[list[str], typer.Option(help="The loop to replay. Repeat for more.")] = [DEFAULT_LOOP],  # noqa: B006
    is_verified: Annotated[
        bool, typer.Option("--verify/--summary", help="Repeat all decisions, or only print a summary.")
    ] = True,
) -> None:
    """Learn every model of a log again, repeat every decision, and compare the results with the log.

    The exit code is 1 if anything differs.
    """
    with closing(open_existing_store(store)) as opened:
        results = [_replay(opened, name, is_verified, Console()) for name in loop]
    if not all(results):
        raise typer.Exit(1)


def _replay(store: EventStore, loop: str, is_verified: bool, console: Console) -> bool:
    """Print a summary, and the result of the verification. Return whether no decision differs."""
    summary = store.summary(loop)
    counts = ", ".join(f"{status.replace('_', ' ')} {count}" for status, count in sorted(summary.rewards.items()))
    total = summary.decisions[EventStatus.ACCEPTED]
    console.print(f"{loop}: {total} decisions; rewards: {counts}", markup=False, soft_wrap=True)
    saved = store.latest_model(loop)
    snapshot = None if saved is None else loadable_snapshot(saved.body)
    if snapshot is not None and snapshot.set_aside:
        console.print(
            f"{snapshot.set_aside} decisions were set aside: their rewards or features cannot be learned", markup=False
        )
    if not is_verified:
        return True
    with work_bar(console) as bar:
        verified = verify(store, loop, lambda done: bar("repeating decisions", done, total))
    line = f"{verified.decisions} decisions repeated with {verified.models} models, {verified.learned} learned again"
    line += f", {verified.set_aside} set aside" if verified.set_aside else ""
    console.print(f"{line}: {'no difference' if verified.sound else f'{verified.different} differ'}", markup=False)
    if verified.unchecked:
        console.print(
            f"{verified.unchecked} decisions cannot be repeated: data that their model needs was deleted or damaged",
            soft_wrap=True,
        )
    for sentence in verified.messages:
        console.print(f"  {sentence}", markup=False)
    return verified.sound
