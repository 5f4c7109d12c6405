"""`glb store verify`: repeat every decision of a service's log, and compare the results with the log."""

from contextlib import closing

import typer
from rich.console import Console

from glbandits.cli.commands.store.models import named_loops
from glbandits.cli.common_options import LoopsOption, StoreOption
from glbandits.cli.progress import work_bar
from glbandits.common.errors import InvalidInput
from glbandits.service.domain.events import EventStatus
from glbandits.service.domain.model_snapshots import loadable_snapshot
from glbandits.service.runtime.replay.replay_verification import VerificationResult, verify
from glbandits.service.server_settings import DEFAULTS
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.open_store import open_existing_store

NOTHING_REPEATED = 3
"""The exit code if no decision of a loop's log could be repeated."""


def verify_command(
    store: StoreOption = DEFAULTS["store"],
    loop: LoopsOption = [],  # noqa: B006
) -> None:
    """Learn every model of a log again, repeat every decision, and compare the results with the log.

    The exit code is 1 if anything differs, and 3 if there is nothing to repeat.
    """
    with closing(open_existing_store(store)) as opened:
        names = named_loops(opened, loop)
        if not names:
            raise InvalidInput(f"{store} has no loop. Name the store that `glb serve --store` uses")
        results = [_verify(opened, name, Console()) for name in names]
    if not all(result.sound for result in results):
        raise typer.Exit(1)
    empty = [name for name, result in zip(names, results, strict=True) if not result.decisions]
    unchecked = any(result.unchecked and not result.decisions for result in results)
    if unchecked or len(empty) == len(names):
        typer.echo(f"Nothing was verified for {', '.join(empty)}: the log has no decision to repeat.", err=True)
        raise typer.Exit(NOTHING_REPEATED)


def _verify(store: EventStore, loop: str, console: Console) -> VerificationResult:
    """Print a summary, and the result of the verification. Return that result."""
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
    with work_bar(console) as bar:
        verified = verify(store, loop, lambda done: bar("repeating decisions", done, total))
    line = f"{verified.decisions} decisions repeated with {verified.models} models, {verified.learned} learned again"
    line += f", {verified.set_aside} set aside" if verified.set_aside else ""
    found = "no difference" if verified.decisions else "nothing to repeat"
    found = found if verified.sound else f"{verified.different} differ"
    console.print(f"{loop}: {line}: {found}", markup=False, soft_wrap=True)
    if verified.unchecked:
        console.print(
            f"{verified.unchecked} decisions cannot be repeated: data that their model needs was deleted or damaged",
            soft_wrap=True,
        )
    for sentence in verified.messages:
        console.print(f"  {sentence}", markup=False)
    return verified
