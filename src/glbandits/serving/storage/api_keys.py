"""Keys of those who may use the service. Only their digests are kept, so that the store gives none away.

A key is 256 random bits. That is why one round of SHA-256 is enough for it, where a password would need a slow hash.
"""

import secrets
from collections.abc import Callable, Iterable
from hashlib import sha256
from hmac import compare_digest
from typing import NamedTuple

import msgspec

from glbandits.errors import InvalidInput, lookup
from glbandits.serving.storage.event_store import EventStore

SCOPES = {
    "rank": "have actions chosen, and activate them",
    "reward": "send rewards",
    "read": "read configurations, models, logs and metrics",
    "admin": "change configurations, models, logs and evaluations",
}
"""What a key may be for. None includes another."""
SERVICE, KEYS = "", "keys"
"""Keys are for all loops: their document is that of no loop."""
AT_ONCE = 2
"""Live keys of one name: the one in use, and the one that takes its place."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key, without its text."""

    id: str
    """By which it is revoked. It says nothing of the text."""
    name: str
    """Whose it is."""
    digest: bytes
    """SHA-256 of the text."""
    scopes: tuple[str, ...]
    timestamp: int = msgspec.field(name="at")
    """When it was made, in microseconds since 1970."""


class _Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """A version of the document. Each says what was new, so that two who write at once lose nothing."""

    created: Key | None = None
    revoked: str = ""


class NewKey(NamedTuple):
    """A key whose text is known: only once, when it was made."""

    text: str
    key: Key


class Keys:
    """The keys of a store.

    Args:
        store: where their digests are.
        clock: microseconds since 1970.
    """

    def __init__(self, store: EventStore, clock: Callable[[], int]) -> None:
        self._store, self._clock = store, clock

    def live(self) -> list[Key]:
        """Those that were made and not revoked, the oldest first."""
        keys: dict[str, Key] = {}
        for document in self._store.documents(SERVICE, KEYS):
            change = msgspec.json.decode(document.body, type=_Change)
            if change.created is not None:
                keys[change.created.id] = change.created
            keys.pop(change.revoked, None)
        return list(keys.values())

    def create_first(self, name: str) -> NewKey | None:
        """Create a key for everything in a store that never had one.

        Returns None if the store has or had a key: of several processes that call this at once, one gets a key.
        """
        new, body = self._new_key(name, tuple(SCOPES))
        saved = self._store.save_documents(SERVICE, self._clock(), {KEYS: body}, after={KEYS: 0})
        return new if saved else None

    def create(self, name: str, scopes: Iterable[str] = tuple(SCOPES)) -> NewKey:
        """A new key, whose text is returned here and nowhere kept."""
        wanted = tuple(dict.fromkeys(scopes))
        for scope in wanted:
            lookup("scope", scope, SCOPES)
        if not wanted or not name.strip():
            raise InvalidInput(f"a key needs a name and at least one scope of {', '.join(SCOPES)}")
        same = [key.id for key in self.live() if key.name == name]
        if len(same) >= AT_ONCE:
            raise InvalidInput(
                f"{name!r} has {len(same)} live keys, as many as may be: {', '.join(same)}. Revoke one, or take "
                "another name"
            )
        new, body = self._new_key(name, wanted)
        self._store.save_document(SERVICE, KEYS, self._clock(), body)
        return new

    def _new_key(self, name: str, scopes: tuple[str, ...]) -> tuple[NewKey, bytes]:
        """A key that is not saved yet, and the document that creates it."""
        text = secrets.token_urlsafe(32)
        key = Key(
            id=secrets.token_hex(4), name=name, digest=digest_of(text.encode()), scopes=scopes, timestamp=self._clock()
        )
        return NewKey(text, key), msgspec.json.encode(_Change(created=key))

    def revoke(self, key_id: str) -> Key:
        """End a key. A server that runs refuses it within seconds."""
        key = lookup("key", key_id, {key.id: key for key in self.live()})
        body = msgspec.json.encode(_Change(revoked=key.id))
        self._store.save_document(SERVICE, KEYS, self._clock(), body)
        return key


def digest_of(text: bytes) -> bytes:
    """What is kept of the text of a key."""
    return sha256(text).digest()


def find_key(digest: bytes, keys: Iterable[Key]) -> Key | None:
    """The key with this digest. All are compared, each in constant time: how long it takes tells nothing."""
    found = None
    for key in keys:
        if compare_digest(key.digest, digest):
            found = key
    return found
