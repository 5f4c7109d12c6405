"""Authentication: checks the key of a request, its scope and its rate limit."""

import math
import secrets
from collections.abc import Callable, Sequence
from hashlib import blake2b

from glbandits.service.http.http_messages import HttpError, Request
from glbandits.service.runtime.rate_limit import RateLimit
from glbandits.service.storage.api_keys import Key, digest_of, find_key

SECRET = secrets.token_bytes(16)
OPEN = ""
"""The scope of endpoints that need no key."""
CHALLENGE = ((b"www-authenticate", b"Bearer"),)


class Authenticator:
    """Checks the keys of requests. Belongs to one thread, except `refresh`.

    Args:
        read_keys: returns the live keys.
        rate_limit: limits the requests of each key; None for no limit.
    """

    def __init__(self, read_keys: Callable[[], Sequence[Key]], *, rate_limit: RateLimit | None = None) -> None:
        self._read_keys, self._rate_limit = read_keys, rate_limit
        self._keys: tuple[Key, ...] = ()
        self._seen: dict[bytes, Key] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the keys again. May be called from any thread."""
        keys = tuple(self._read_keys())
        if keys != self._keys:
            self._keys = keys
            self._seen = {}

    def authorize(self, request: Request, scope: str) -> str:
        """Check the key of a request, and return its name.

        Raises HttpError: 401 without a live key, 403 if the key lacks the scope, 429 above the rate limit.
        """
        key = self.check_scope(request, scope)
        wait = self._rate_limit.acquire(key.id) if self._rate_limit is not None else 0.0
        if wait:
            message = f"the key {key.name!r} is above its rate limit; retry in {math.ceil(wait)} s"
            raise HttpError(429, "TooManyRequests", message, ((b"retry-after", b"%d" % math.ceil(wait)),))
        return key.name

    def check_scope(self, request: Request, scope: str) -> Key:
        """Return the key of a request, without using the rate limit. Raises HttpError: 401 or 403."""
        key = self._key_of(request.headers)
        if scope not in key.scopes:
            allowed = ", ".join(key.scopes)
            message = f"the key must have the scope {scope}; {key.name!r} has {allowed}"
            raise HttpError(403, "Forbidden", f"{message}. Create one with `glb keys create NAME --scope {scope}`")
        return key

    def _key_of(self, headers: dict[bytes, bytes]) -> Key:
        text = headers.get(b"ocp-apim-subscription-key")
        if not text:
            scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
            text = bearer.strip() if scheme.lower() == b"bearer" else b""
        if not text:
            message = "the key is missing; send it as Ocp-Apim-Subscription-Key: KEY or as Authorization: Bearer KEY"
            raise HttpError(401, "Unauthorized", message, CHALLENGE)
        # Known keys are cached by a keyed digest, which is faster than SHA-256. Clients cannot choose a digest, so the
        # time of this lookup reveals nothing.
        digest, seen = blake2b(text, digest_size=16, key=SECRET).digest(), self._seen
        key = seen.get(digest)
        if key is None:
            key = find_key(digest_of(text), self._keys)
            if key is None:
                raise HttpError(
                    401, "Unauthorized", "the key is unknown or revoked; create one with `glb keys create`", CHALLENGE
                )
            seen[digest] = key
        return key
