"""`glb store move`: move the store of a service to another database."""

from contextlib import closing
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.common_options import StoreOption
from glbandits.cli.progress import work_bar
from glbandits.common.errors import InvalidInput
from glbandits.service.server_settings import DEFAULTS
from glbandits.service.storage.move import move
from glbandits.service.storage.open_store import open_existing_store, open_store


def move_command(
    target: Annotated[str, typer.Argument(help="The postgresql:// address or SQLite file of a new store.")],
    store: StoreOption = DEFAULTS["store"],
) -> None:
    """Copy a store to another database, and compare both: decisions, rewards, models, configurations and keys.

    Stop all servers of the store first. A move that was interrupted can be repeated, and then continues.
    """
    if target == store:
        raise InvalidInput(f"the store moves to another address; got {target} for both", field="store")
    with (
        closing(open_existing_store(store)) as old,
        closing(open_store(target, durability="power")) as new,
        work_bar(Console()) as bar,
    ):
        total = old.last_event()
        contents = move(old, new, lambda what, done: bar(what, done, total))
    for name, content in contents.items():
        typer.echo(f"{name}: {content.rows} rows")
    typer.echo("Both stores have the same content. Start the servers with the new --store.")
