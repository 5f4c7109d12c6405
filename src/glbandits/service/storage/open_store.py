"""Opens the store that an address names."""

from pathlib import Path

from glbandits.common.errors import InvalidInput, MissingExtra
from glbandits.common.extras import install_command, needed_for

with needed_for("the store of a service", "serve"):
    from glbandits.service.storage.event_store import EventStore
    from glbandits.service.storage.sqlite_store import SqliteStore

POSTGRES = ("postgresql://", "postgres://")


def is_postgres(address: str) -> bool:
    """Return whether an address names a PostgreSQL database.

    Other addresses are paths of SQLite files.
    """
    return address.startswith(POSTGRES)


def open_store(address: str, *, durability: str) -> EventStore:
    """Open a PostgreSQL database (`postgresql://...`) or a SQLite file.

    `durability` is that of `SqliteStore`. With PostgreSQL an acknowledged event always survives a power failure. Raises
    MissingExtra for PostgreSQL without the extra `postgres`.
    """
    if not is_postgres(address):
        return SqliteStore(address, durability=durability)
    try:
        with needed_for("a PostgreSQL store", "postgres"):
            from glbandits.service.storage.postgres_store import PostgresStore
    except ModuleNotFoundError:
        raise
    except ImportError as error:  # psycopg is installed, but not the library of PostgreSQL that it needs
        raise MissingExtra(f"a PostgreSQL store needs libpq ({error}). {install_command('postgres')}.") from None
    return PostgresStore(address)


def open_existing_store(address: str) -> EventStore:
    """Open the store of a service, for commands. Raises InvalidInput if the SQLite file does not exist."""
    if not is_postgres(address) and not Path(address).is_file():
        raise InvalidInput(f"there is no store {address}; name the file that `glb serve --store` uses")
    return open_store(address, durability="power")
