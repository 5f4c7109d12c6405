"""API keys. The store has only their SHA-256 digests.

A key is 256 random bits, so one round of SHA-256 is enough. A password would need a slow hash.
"""

import secrets
from collections.abc import Callable, Iterable
from hashlib import sha256
from hmac import compare_digest
from typing import NamedTuple

import msgspec

from glbandits.common.errors import InvalidInput, lookup
from glbandits.service.domain.errors import StoreError
from glbandits.service.storage.event_store import EventStore

SCOPES = {
    "rank": "request decisions, and activate them",
    "reward": "send rewards",
    "read": "read configurations, models, logs and metrics",
    "admin": "change configurations",
    "evaluate": "evaluate flags",
}
"""Scopes of a key and what they allow. No scope includes another."""
LOOP = "loop:"
"""Begins a scope that restricts a key to the loop of the name that follows. A key may have several."""
SERVICE, KEYS, UNFINISHED_MOVE = "", "keys", "unfinished move"
"""Loop name and kinds of documents that are for all loops, so the loop name is empty. While `glb store move` fills a
store, the store has the last one."""
KEYS_EVERY = 0.1
"""Seconds between two looks of a server for new and revoked keys."""
MAX_LIVE_KEYS = 2
"""Live keys of one name: the one in use, and its replacement."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret text."""

    id: str
    """Names the key in `revoke`. It is not derived from the text."""
    name: str
    """The name of its owner."""
    digest: bytes
    """SHA-256 of the text."""
    scopes: tuple[str, ...]
    timestamp: int
    """When the key was created, in microseconds since 1970."""

    def may_use(self, loop_name: str | None) -> bool:
        """Return whether the key is for a loop; with None, whether it is for all loops."""
        own = [scope for scope in self.scopes if scope.startswith(LOOP)]
        return not own or (loop_name is not None and LOOP + loop_name in own)


class _Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """A version of the document of keys.

    Each version is one change, so that concurrent changes are not lost.
    """

    created: Key | None = None
    revoked: str = ""


class NewKey(NamedTuple):
    """A new key with its text, which is not stored."""

    text: str
    key: Key


class Keys:
    """The keys of a store.

    Args:
        store: has the digests of the keys.
        clock: microseconds since 1970.
    """

    def __init__(self, store: EventStore, clock: Callable[[], int]) -> None:
        if store.latest_document(SERVICE, UNFINISHED_MOVE) is not None:
            raise StoreError(
                "the move to this store is not complete. Repeat `glb store move`, or use the store it came from"
            )
        self._store, self._clock = store, clock
        self._version, self._live = 0, list[Key]()

    def live(self) -> list[Key]:
        """Return the keys that are not revoked, the oldest first. Reads the keys only if one has changed."""
        version, keys = self._store.newest_version(SERVICE, KEYS), dict[str, Key]()
        if version == self._version:
            return self._live
        for document in self._store.documents(SERVICE, KEYS):
            change = msgspec.json.decode(document.body, type=_Change)
            if change.created is not None:
                keys[change.created.id] = change.created
            keys.pop(change.revoked, None)
        self._version, self._live = version, list(keys.values())
        return self._live

    def create_first(self, name: str) -> NewKey | None:
        """Create a key with all scopes in a store that never had a key.

        Returns None if the store has or had a key. Of several processes that call this at once, one gets a key.
        """
        new, body = self._new_key(name, tuple(SCOPES))
        saved = self._store.save_documents(SERVICE, self._clock(), {KEYS: body}, expected_versions={KEYS: 0})
        return new if saved else None

    def create(self, name: str, scopes: Iterable[str] = tuple(SCOPES)) -> NewKey:
        """Create a key.

        Raises UnknownName for an unknown scope, and InvalidInput if the name has two live keys.
        """
        scope_names = tuple(dict.fromkeys(scopes))
        actions = [scope for scope in scope_names if not scope.startswith(LOOP)]
        for scope in actions:
            lookup("scope", scope, SCOPES)
        if LOOP in scope_names:
            raise InvalidInput(f"the scope {LOOP} needs the name of a loop, such as {LOOP}shop")
        if not actions or not name.strip():
            raise InvalidInput(f"a key needs a name and at least one scope of {', '.join(SCOPES)}")
        same = [key.id for key in self.live() if key.name == name]
        if len(same) >= MAX_LIVE_KEYS:
            raise InvalidInput(
                f"a name may have {MAX_LIVE_KEYS} live keys; {name!r} has {', '.join(same)}. Revoke one, or use "
                "another name"
            )
        new, body = self._new_key(name, scope_names)
        self._store.save_document(SERVICE, KEYS, self._clock(), body)
        return new

    def _new_key(self, name: str, scopes: tuple[str, ...]) -> tuple[NewKey, bytes]:
        """Return a key that is not saved yet, and the body of the document that creates it."""
        text = secrets.token_urlsafe(32)
        key = Key(
            id=secrets.token_hex(4), name=name, digest=digest_of(text.encode()), scopes=scopes, timestamp=self._clock()
        )
        return NewKey(text, key), msgspec.json.encode(_Change(created=key))

    def revoke(self, key_id: str) -> Key:
        """Revoke a key. Running servers refuse it within 0.2 s. Raises UnknownName."""
        key = lookup("key", key_id, {key.id: key for key in self.live()})
        body = msgspec.json.encode(_Change(revoked=key.id))
        self._store.save_document(SERVICE, KEYS, self._clock(), body)
        return key


def digest_of(text: bytes) -> bytes:
    """Return the digest of the text of a key."""
    return sha256(text).digest()


def find_key(digest: bytes, keys: Iterable[Key]) -> Key | None:
    """Return the key with this digest.

    Compares with all keys, in a time that does not depend on the digest.
    """
    matching = None
    for key in keys:
        if compare_digest(key.digest, digest):
            matching = key
    return matching
