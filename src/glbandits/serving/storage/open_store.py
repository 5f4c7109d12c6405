"""Opens the store that the settings name."""

from glbandits.serving.server_settings import Settings
from glbandits.serving.storage.event_store import EventStore
from glbandits.serving.storage.sqlite_store import SqliteStore


def open_store(settings: Settings) -> EventStore:
    """Open the store at `settings.store`. Raises StoreError if that fails. The caller closes it."""
    return SqliteStore(settings.store, durability=settings.durability)
