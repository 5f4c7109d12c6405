"""`glb store version`: which version the tables of a store have."""

import typer

from glbandits.cli.common_options import StoreOption
from glbandits.service.server_settings import DEFAULTS
from glbandits.service.storage.migrations import present_version
from glbandits.service.storage.open_store import version_of


def version_command(store: StoreOption = DEFAULTS["store"]) -> None:
    """Print the version of the tables, without changing them. A newer version than that of glbandits is an error."""
    version, present = version_of(store), present_version()
    typer.echo(f"{store} has version {version} of the tables; this glbandits uses version {present}.")
    if version < present:
        typer.echo(
            "The next start of a server, and any other command, migrates the store. A SQLite file is copied first."
        )
