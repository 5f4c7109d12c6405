"""Authentication: checks the key of a request, its scope and its rate limit."""

import math
import secrets
from collections.abc import Callable, Sequence
from hashlib import blake2b

from starlette.requests import Request

from glbandits.service.http.http_errors import HttpError
from glbandits.service.runtime.rate_limit import RateLimit
from glbandits.service.storage.api_keys import Key, digest_of, find_key

SECRET = secrets.token_bytes(16)
OPEN = ""
"""The scope of endpoints that need no key."""
FAILED_KEYS = 10.0
"""Unknown keys that one address may send in a second. Further ones get 429 and are not looked up."""
CHALLENGE = {"www-authenticate": "Bearer"}


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
        self._unknown_keys = RateLimit(FAILED_KEYS)
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
        if self._rate_limit is not None:
            _check_rate(self._rate_limit, key.id, f"the key {key.name!r} is above its rate limit")
        return key.name

    def check_scope(self, request: Request, scope: str) -> Key:
        """Return the key of a request, without using the rate limit. Raises HttpError: 401 or 403."""
        key = self._key_of(request)
        if scope not in key.scopes:
            allowed = ", ".join(key.scopes)
            raise HttpError(403, "Forbidden", f"the key must have the scope {scope}; {key.name!r} has {allowed}")
        return key

    def _key_of(self, request: Request) -> Key:
        headers = request.headers
        text = headers.get("ocp-apim-subscription-key")
        if not text:
            scheme, _, bearer = headers.get("authorization", "").partition(" ")
            text = bearer.strip() if scheme.lower() == "bearer" else ""
        if not text:
            message = "the key is missing; send it as Ocp-Apim-Subscription-Key: KEY or as Authorization: Bearer KEY"
            raise HttpError(401, "Unauthorized", message, CHALLENGE)
        # Known keys are cached by a keyed digest, which is faster than SHA-256. Clients cannot choose a digest, so the
        # time of this lookup reveals nothing.
        digest, seen = blake2b(text.encode(), digest_size=16, key=SECRET).digest(), self._seen
        key = seen.get(digest)
        if key is None:
            address = request.client.host if request.client else ""
            _check_rate(self._unknown_keys, address, "this address sends too many unknown keys")
            key = find_key(digest_of(text.encode()), self._keys)
            if key is None:
                raise HttpError(
                    401, "Unauthorized", "the key is unknown or revoked; create one with `glb keys create`", CHALLENGE
                )
            seen[digest] = key
        return key


def _check_rate(limit: RateLimit, name: str, problem: str) -> None:
    wait = math.ceil(limit.acquire(name))
    if wait:
        raise HttpError(429, "TooManyRequests", f"{problem}; retry in {wait} s", {"retry-after": str(wait)})
