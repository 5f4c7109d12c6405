"""`glb keys`: create, list and revoke the API keys of a service. A running server notices changes within seconds."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.common_options import StoreOption
from glbandits.cli.printed_table import print_table
from glbandits.common.display.data_table import DataTable
from glbandits.service.runtime.service import microseconds
from glbandits.service.server_settings import DEFAULTS
from glbandits.service.storage.api_keys import SCOPES, Keys
from glbandits.service.storage.open_store import open_existing_store

keys_command = typer.Typer(
    help="Create, list and revoke the API keys of a service.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@contextmanager
def _keys(address: str) -> Iterator[Keys]:
    with closing(open_existing_store(address)) as store:
        yield Keys(store, microseconds)


@keys_command.command("create")
def create(
    name: Annotated[str, typer.Argument(help="The owner of the key. A name can have several keys, for rotation.")],
    scope: Annotated[list[str], typer.Option(help=f"One of {', '.join(SCOPES)}. Repeat for more.")] = [  # noqa: B006
        "rank",
        "reward",
    ],
    store: StoreOption = DEFAULTS["store"],
) -> None:
    """Create a key and print it. It cannot be printed again."""
    with _keys(store) as keys:
        typer.echo(keys.create(name, scope).text)


@keys_command.command("list")
def list_keys(store: StoreOption = DEFAULTS["store"]) -> None:
    """List the keys that are not revoked. The store has only their hashes."""
    columns, rows = ("id", "name", "scopes", "created"), []
    with _keys(store) as keys:
        for key in keys.live():
            created = datetime.fromtimestamp(key.timestamp / 1e6, UTC).isoformat(sep=" ", timespec="seconds")
            rows.append((key.id, key.name, ", ".join(key.scopes), created))
    print_table(Console(), DataTable(columns, rows, columns))


@keys_command.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(help="The id of the key, as `glb keys list` shows it.")],
    store: StoreOption = DEFAULTS["store"],
) -> None:
    """Revoke a key."""
    with _keys(store) as keys:
        typer.echo(f"Revoked key {key} of {keys.revoke(key).name}")
