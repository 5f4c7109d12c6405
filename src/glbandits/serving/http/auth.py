"""Authentication: every request shows a live key that has the endpoint's scope, and keeps its rate limit."""

import math
import secrets
from collections.abc import Callable, Sequence
from hashlib import blake2b

from glbandits.serving.http.http_messages import HttpError, Request
from glbandits.serving.runtime.rate_limit import RateLimit
from glbandits.serving.storage.api_keys import Key, digest_of, find_key

SECRET = secrets.token_bytes(16)
OPEN = ""
"""The scope of endpoints that need no key."""
CHALLENGE = ((b"www-authenticate", b"Bearer"),)


class Authenticator:
    """Checks the keys of requests. Belongs to one thread, except `refresh`.

    Args:
        read_keys: returns the live keys.
        rate_limit: requests a second for each key.
    """

    def __init__(self, read_keys: Callable[[], Sequence[Key]], *, rate_limit: RateLimit | None = None) -> None:
        self._read_keys, self._rate_limit = read_keys, rate_limit
        self._keys: tuple[Key, ...] = ()
        self._seen: dict[bytes, Key] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the keys again, from any thread. New keys are valid from now on, revoked ones are not."""
        keys = tuple(self._read_keys())
        if keys != self._keys:
            self._keys = keys
            self._seen = {}

    def admit(self, request: Request, scope: str) -> str:
        """Return the name of the request's key.

        Raises a 401 without a live key, a 403 if the key lacks the scope, and a 429 above the rate limit.
        """
        key = self._key_of(request.headers)
        if scope not in key.scopes:
            allowed = ", ".join(key.scopes)
            raise HttpError(403, "Forbidden", f"this needs a key for {scope}; the key {key.name!r} is for {allowed}")
        wait = self._rate_limit.wait(key.id) if self._rate_limit is not None else 0.0
        if wait:
            message = f"the key {key.name!r} has come too often; try again in {math.ceil(wait)} s"
            raise HttpError(429, "TooManyRequests", message, ((b"retry-after", b"%d" % math.ceil(wait)),))
        return key.name

    def _key_of(self, headers: dict[bytes, bytes]) -> Key:
        text = headers.get(b"ocp-apim-subscription-key")
        if text is None:
            scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
            text = bearer.strip() if scheme.lower() == b"bearer" else b""
        if not text:
            message = "a key is needed, in the header Ocp-Apim-Subscription-Key or as Authorization: Bearer KEY"
            raise HttpError(401, "Unauthorized", message, CHALLENGE)
        # Known keys are cached by a keyed digest, which is quicker than SHA-256. Clients cannot choose a digest, so
        # the time of this look-up reveals nothing.
        mark, seen = blake2b(text, digest_size=16, key=SECRET).digest(), self._seen
        key = seen.get(mark)
        if key is None:
            key = find_key(digest_of(text), self._keys)
            if key is None:
                raise HttpError(401, "Unauthorized", "the key is not known, or was revoked", CHALLENGE)
            seen[mark] = key
        return key
