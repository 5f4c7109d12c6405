"""Opens the store that an address names."""

from pathlib import Path
from types import ModuleType

from glbandits.common.errors import InvalidInput, MissingExtra
from glbandits.common.extras import install_command, needed_for

with needed_for("the store of a service", "serve"):
    from glbandits.service.storage.event_store import EventStore
    from glbandits.service.storage.sqlite_schema import stored_version
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
    store: EventStore = _postgres().PostgresStore(address)
    return store


def _postgres() -> ModuleType:
    try:
        with needed_for("a PostgreSQL store", "postgres"):
            from glbandits.service.storage import postgres_store
    except ModuleNotFoundError:
        raise
    except ImportError as error:  # psycopg is installed, but not the library of PostgreSQL that it needs
        raise MissingExtra(f"a PostgreSQL store needs libpq ({error}). {install_command('postgres')}.") from None
    return postgres_store


def open_existing_store(address: str) -> EventStore:
    """Open the store of a service, for commands. Raises InvalidInput if the SQLite file does not exist."""
    _check_exists(address)
    return open_store(address, durability="power")


def version_of(address: str) -> int:
    """Return the version of the tables of a store, and change nothing.

    Raises InvalidInput if there is no store, and StoreError if this version of glbandits cannot use it.
    """
    _check_exists(address)
    version: int = _postgres().version_at(address) if is_postgres(address) else stored_version(Path(address))
    if not version:
        raise InvalidInput(f"{address} has no tables yet; the first start of `glb serve` creates them")
    return version


def _check_exists(address: str) -> None:
    if not is_postgres(address) and not Path(address).is_file():
        raise InvalidInput(f"there is no store {address}; name the file that `glb serve --store` uses")
