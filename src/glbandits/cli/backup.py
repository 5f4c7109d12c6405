"""`glb backup`: a copy of a service's store, while the service runs."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from glbandits.cli.export import opened_store
from glbandits.serving.domain.errors import StoreError
from glbandits.serving.server_settings import DEFAULTS
from glbandits.serving.storage.sqlite_store import SqliteStore


def backup_command(
    copy: Annotated[Path, typer.Argument(help="The new file.")],
    store: Annotated[str, typer.Option(help="The file or postgresql:// address of the service's store.")] = DEFAULTS[
        "store"
    ],
) -> None:
    """Copy a store as it is at one moment, and check the copy."""
    with closing(opened_store(store)) as source:
        source.backup(copy)
    with closing(SqliteStore(copy)) as copied:
        wrong = copied.check()
    if wrong:
        raise StoreError(f"{copy} is not sound: {'; '.join(wrong)}")
    typer.echo(f"{copy}: {copy.stat().st_size} bytes, sound")
