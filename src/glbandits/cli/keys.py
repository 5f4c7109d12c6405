"""`glb keys`: make, list and revoke the keys of a service. A server that runs takes note within seconds."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from glbandits.cli.export import opened_store
from glbandits.serving.runtime.service import microseconds
from glbandits.serving.server_settings import DEFAULTS
from glbandits.serving.storage.api_keys import SCOPES, Keys

keys_app = typer.Typer(help="Make, list and revoke the keys of a service.", no_args_is_help=True, add_completion=False)
Store = Annotated[str, typer.Option(help="The file or postgresql:// address of the service's store.")]
DEFAULT_STORE: str = DEFAULTS["store"]


@contextmanager
def _keys(address: str) -> Iterator[Keys]:
    with closing(opened_store(address)) as store:
        yield Keys(store, microseconds)


@keys_app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Whose key it is. A name can have two, so that one replaces the other.")],
    scope: Annotated[list[str], typer.Option(help=f"What it is for: {', '.join(SCOPES)}. More than one: repeat.")] = [  # noqa: B006
        "rank",
        "reward",
    ],
    store: Store = DEFAULT_STORE,
) -> None:
    """Make a key and print it, this once."""
    with _keys(store) as keys:
        typer.echo(keys.create(name, scope).text)


@keys_app.command("list")
def list_keys(store: Store = DEFAULT_STORE) -> None:
    """List the live keys. Their text is not kept anywhere."""
    table = Table()
    for column in ("id", "name", "scopes", "made at"):
        table.add_column(column, overflow="fold")
    with _keys(store) as keys:
        for key in keys.live():
            at = datetime.fromtimestamp(key.timestamp / 1e6, UTC).isoformat(sep=" ", timespec="seconds")
            table.add_row(key.id, escape(key.name), ", ".join(key.scopes), at)
    Console().print(table)


@keys_app.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(help="Its id, as `glb keys list` shows it.")],
    store: Store = DEFAULT_STORE,
) -> None:
    """End a key."""
    with _keys(store) as keys:
        typer.echo(f"{keys.revoke(key).name}: revoked {key}")
