"""Who may come in: every request shows a key that is live, has the route's scope, and does not come too often."""

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from glbandits.serving.http.http_types import BEARER_HEADER, KEY_HEADER, HttpError, Request
from glbandits.serving.runtime.rate_limit import RateLimit
from glbandits.serving.storage.api_keys import Key, digest_of, find_key

SECRET = secrets.token_bytes(16)
OPEN = ""
"""The scope of routes that need no key."""
BEARER = b"bearer "
CHALLENGE = ((b"www-authenticate", b"Bearer"),)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How large a request may be."""

    body: int = 256 * 1024
    """Bytes."""
    actions: int = 50
    """Of a decision whose actions are described by JSON."""
    dense_actions: int = 1000
    """Of a decision whose actions are rows of numbers."""
    features: int = 10_000
    """Numbers of such a row."""


class Authenticator:
    """Admits requests. Belongs to one thread, but for `refresh`.

    Args:
        read_keys: gives the live keys.
        rate_limit: requests a second for each key.
        limits: how large a request may be, for the APIs to hold.
    """

    def __init__(
        self,
        read_keys: Callable[[], Sequence[Key]],
        *,
        rate_limit: RateLimit | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self._read_keys, self._rate_limit = read_keys, rate_limit or RateLimit(0.0)
        self._keys: tuple[Key, ...] = ()
        self._seen: dict[bytes, Key] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the keys again: new ones are admitted from now on, revoked ones no more. From any thread."""
        keys = tuple(self._read_keys())
        if keys != self._keys:
            self._keys = keys
            self._seen = {}

    def admit(self, request: Request, scope: str) -> None:
        """Refuse a request without a live key (401), without the scope (403), or that comes too often (429)."""
        if scope == OPEN:
            return
        key = self._key_of(request)
        if scope not in key.scopes:
            raise HttpError(
                403, "Forbidden", f"this needs a key for {scope}; the key {key.name!r} is for {', '.join(key.scopes)}"
            )
        wait = self._rate_limit.wait(key.id)
        if wait:
            seconds = math.ceil(wait)
            raise HttpError(
                429,
                "TooManyRequests",
                f"the key {key.name!r} has come too often; try again in {seconds} s",
                ((b"retry-after", str(seconds).encode()),),
            )

    def _key_of(self, request: Request) -> Key:
        text = _shown(request.headers)
        if not text:
            raise HttpError(
                401,
                "Unauthorized",
                "a key is needed, in the header Ocp-Apim-Subscription-Key or as Authorization: Bearer KEY",
                CHALLENGE,
            )
        # Those that were found once are found again by a digest with a secret of its own, which is quicker. Nobody can
        # steer it towards that of a live key; so how long this takes tells nothing.
        mark, seen = blake2b(text, digest_size=16, key=SECRET).digest(), self._seen
        key = seen.get(mark)
        if key is None:
            key = find_key(digest_of(text), self._keys)
            if key is None:
                raise HttpError(401, "Unauthorized", "the key is not known, or was revoked", CHALLENGE)
            seen[mark] = key
        return key


def _shown(headers: dict[bytes, bytes]) -> bytes:
    text = headers.get(KEY_HEADER)
    if text is not None:
        return text
    bearer = headers.get(BEARER_HEADER, b"")
    return bearer[len(BEARER) :].strip() if bearer[: len(BEARER)].lower() == BEARER else b""
