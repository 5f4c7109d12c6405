"""`glb store keys`: create, list and revoke the API keys of a service.

Running servers know a change when a command ends.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from time import sleep
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.common_options import StoreOption
from glbandits.cli.printed_table import print_table
from glbandits.common.display.data_table import DataTable
from glbandits.service.runtime.service import microseconds
from glbandits.service.server_settings import DEFAULTS
from glbandits.service.storage.api_keys import KEYS_EVERY, LOOP, SCOPES, Keys
from glbandits.service.storage.open_store import open_existing_store, open_store

KNOWN_AFTER = 2 * KEYS_EVERY
"""Seconds until all running servers know a new or revoked key."""


@contextmanager
def _keys(address: str) -> Iterator[Keys]:
    with closing(open_existing_store(address)) as store:
        yield Keys(store, microseconds)


def create_command(
    name: Annotated[str, typer.Argument(help="The owner of the key. A name can have several keys, for rotation.")],
    scope: Annotated[
        list[str], typer.Option(help=f"One of {', '.join(SCOPES)}, or {LOOP}NAME for one loop only. Repeat for more.")
    ] = [  # noqa: B006
        "rank",
        "reward",
        "read",
    ],
    store: StoreOption = DEFAULTS["store"],
) -> None:
    """Create a key and print it. It cannot be printed again.

    The default scopes are for a program and for the dashboard. A store that does not exist yet is created.
    """
    with closing(open_store(store, durability="power")) as opened:
        typer.echo(Keys(opened, microseconds).create(name, scope).text)
    sleep(KNOWN_AFTER)


def list_command(store: StoreOption = DEFAULTS["store"]) -> None:
    """List the keys that are not revoked. The store has only their hashes."""
    columns, rows = ("id", "name", "scopes", "created"), []
    with _keys(store) as keys:
        for key in keys.live():
            created = datetime.fromtimestamp(key.timestamp / 1e6, UTC).isoformat(sep=" ", timespec="seconds")
            rows.append((key.id, key.name, ", ".join(key.scopes), created))
    print_table(Console(), DataTable(columns, rows, columns))


def revoke_command(
    key: Annotated[str, typer.Argument(help="The id of the key, as `glb store keys list` shows it.")],
    store: StoreOption = DEFAULTS["store"],
) -> None:
    """Revoke a key."""
    with _keys(store) as keys:
        name = keys.revoke(key).name
    sleep(KNOWN_AFTER)
    typer.echo(f"Revoked key {key} of {name}")
