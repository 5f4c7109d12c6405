"""Authentication: every request shows a live key that has the endpoint's scope, and keeps its rate limit."""

import math
import secrets
from collections.abc import Callable, Sequence
from hashlib import blake2b

from glbandits.serving.http.http_messages import HttpError, Request
from glbandits.serving.runtime.rate_limit import RateLimit
from glbandits.serving.storage.api_keys import Key, digest_of, find_key

SECRET = secrets.token_bytes(16)
KEY_HEADER, BEARER_HEADER = b"ocp-apim-subscription-key", b"authorization"
OPEN = ""
"""The scope of endpoints that need no key."""
BEARER = b"bearer "
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
        key = self._key_of(request)
        if scope not in key.scopes:
            raise HttpError(
                403, "Forbidden", f"this needs a key for {scope}; the key {key.name!r} is for {', '.join(key.scopes)}"
            )
        wait = self._rate_limit.wait(key.id) if self._rate_limit is not None else 0.0
        if wait:
            seconds = math.ceil(wait)
            raise HttpError(
                429,
                "TooManyRequests",
                f"the key {key.name!r} has come too often; try again in {seconds} s",
                ((b"retry-after", str(seconds).encode()),),
            )
        return key.name

    def _key_of(self, request: Request) -> Key:
        text = _shown(request.headers)
        if not text:
            raise HttpError(
                401,
                "Unauthorized",
                "a key is needed, in the header Ocp-Apim-Subscription-Key or as Authorization: Bearer KEY",
                CHALLENGE,
            )
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


def _shown(headers: dict[bytes, bytes]) -> bytes:
    text = headers.get(KEY_HEADER)
    if text is not None:
        return text
    bearer = headers.get(BEARER_HEADER, b"")
    return bearer[len(BEARER) :].strip() if bearer[: len(BEARER)].lower() == BEARER else b""
