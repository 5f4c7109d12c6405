"""`glb replay`: every decision of a server's log made again."""

from contextlib import closing
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.export import opened_store
from glbandits.cli.progress import work_bar
from glbandits.serving.domain.events import EventStatus
from glbandits.serving.domain.model_snapshots import decode_snapshot
from glbandits.serving.runtime.replay.replay_verification import verify
from glbandits.serving.runtime.service import DEFAULT_LOOP
from glbandits.serving.storage.event_store import EventStore


def replay_command(
    store: Annotated[str, typer.Argument(help="The file or postgresql:// address of a server's store.")],
    loop: Annotated[list[str], typer.Option(help="A loop of it.")] = [DEFAULT_LOOP],  # noqa: B006
    check: Annotated[
        bool, typer.Option("--verify/--summary", help="Make all decisions again, or only say what there is.")
    ] = True,
) -> None:
    """Learn every model of a log again, make every decision again, and say whether all came out the same.

    The exit code is 1 if anything did not.
    """
    with closing(opened_store(store)) as kept:
        sound = [_replay(kept, name, check, Console()) for name in loop]
    if not all(sound):
        raise typer.Exit(1)


def _replay(kept: EventStore, loop: str, check: bool, console: Console) -> bool:
    """Print what there is, and whether it comes out the same again."""
    summary = kept.summary(loop)
    counts = ", ".join(f"{status.replace('_', ' ')} {count}" for status, count in sorted(summary.rewards.items()))
    total = summary.decisions[EventStatus.ACCEPTED]
    console.print(f"{loop}: {total} decisions; rewards: {counts}", markup=False, soft_wrap=True)
    model = kept.latest_model(loop)
    if model is not None and (set_aside := decode_snapshot(model.body).set_aside):
        console.print(
            f"{set_aside} decisions were set aside: their rewards or features cannot be learned", markup=False
        )
    if not check:
        return True
    with work_bar(console) as bar:
        found = verify(kept, loop, lambda done: bar("decisions made again", done, total))
    sentence = f"{found.decisions} decisions made again with {found.models} models, {found.learned} learned again"
    sentence += f", {found.set_aside} set aside" if found.set_aside else ""
    console.print(f"{sentence}: {'all the same' if found.sound else f'{found.different} differ'}", markup=False)
    if found.unchecked:
        console.print(f"{found.unchecked} decisions cannot be made again: what their model learned was deleted")
    for sentence in found.messages:
        console.print(f"  {sentence}", markup=False)
    return found.sound
