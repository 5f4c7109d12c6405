"""The option of commands that read the store of a service."""

from typing import Annotated, TypeAlias

import typer

from glbandits.service.server_settings import DEFAULTS

StoreOption: TypeAlias = Annotated[
    str, typer.Option(help="The SQLite file or postgresql:// address of the service's store.")
]
DEFAULT_STORE: str = DEFAULTS["store"]
