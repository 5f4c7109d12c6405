"""`glb store backup`: copy the store of a service, also while the service runs."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from glbandits.cli.common_options import StoreOption
from glbandits.service.domain.errors import StoreError
from glbandits.service.server_settings import DEFAULTS
from glbandits.service.storage.open_store import open_existing_store
from glbandits.service.storage.sqlite_store import SqliteStore


def backup_command(
    copy: Annotated[Path, typer.Argument(help="The new file.")],
    store: StoreOption = DEFAULTS["store"],
) -> None:
    """Copy a store as it is at one moment, and check the copy."""
    with closing(open_existing_store(store)) as source:
        source.backup(copy)
    with closing(SqliteStore(copy)) as copied:
        defects = copied.check()
    if defects:
        raise StoreError(f"{copy} is damaged: {'; '.join(defects)}. Make another backup")
    typer.echo(f"{copy}: {copy.stat().st_size} bytes, no defects")
