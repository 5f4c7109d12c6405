"""Authentication: checks the key of a request, its scope and its rate limit."""

import math
import secrets
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b

from starlette.requests import Request

from glbandits.common.errors import check_float
from glbandits.service.http.http_errors import HttpError
from glbandits.service.storage.api_keys import Key, digest_of, find_key

SECRET = secrets.token_bytes(16)
RANK, REWARD, READ, ADMIN, EVALUATE = "rank", "reward", "read", "admin", "evaluate"
"""Scopes, see `SCOPES`."""
OPEN = ""
"""The scope of endpoints that need no key."""
FAILED_KEYS = 10.0
"""Unknown keys that one address may send in a second. Further ones get 429 and no line in the log. Known keys of the
same address, which may be that of a proxy, are not affected. No rate makes 256 random bits worth guessing."""
MAX_NAMES = 10_000
"""Names of a rate limit, at most."""
CHALLENGE = {"www-authenticate": "Bearer"}


class RateLimit:
    """Allows each name `rate` requests a second on average, and bursts of `rate` requests.

    A burst may have at least one request. Belongs to one thread. With more than `MAX_NAMES` names all start again.

    >>> now = [0.0]
    >>> limit = RateLimit(2.0, clock=lambda: now[0])
    >>> limit.acquire("shop"), limit.acquire("shop"), limit.acquire("shop")
    (0.0, 0.0, 0.5)
    >>> now[0] = 0.5
    >>> limit.acquire("shop")
    0.0

    Args:
        rate: requests a second; 0 for no limit.
        clock: seconds of a monotonic clock.
    """

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = check_float("rate_limit", rate, at_least=0.0), clock
        self._burst = max(1.0, self._rate)
        self._buckets: dict[str, tuple[float, float]] = {}

    def acquire(self, name: str) -> float:
        """Take a token and return 0; without a token return the seconds until there is one."""
        if not self._rate:
            return 0.0
        if len(self._buckets) > MAX_NAMES:
            self._buckets.clear()
        now = self._clock()
        tokens, since = self._buckets.get(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        if tokens < 1.0:
            return (1.0 - tokens) / self._rate
        self._buckets[name] = (tokens - 1.0, now)
        return 0.0


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

    def authorize(self, request: Request, scope: str) -> None:
        """Check the key of a request, and note it and its name in the state of the request.

        Raises HttpError: 401 without a live key, 403 if the key lacks the scope, 429 above the rate limit.
        """
        key = self.check_scope(request, scope)
        if self._rate_limit is not None:
            _check_rate(self._rate_limit, key.id, f"the key {key.name!r} is above its rate limit")

    def check_scope(self, request: Request, scope: str) -> Key:
        """Return the key of a request, without using the rate limit. Raises HttpError: 401 or 403."""
        key = self._key_of(request)
        request.scope["state"].update(key=key, key_name=key.name)
        if scope not in key.scopes:
            allowed = ", ".join(key.scopes)
            message = f"the key must have the scope {scope}; {key.name!r} has {allowed}"
            how = f"Create one with `glb store keys create NAME --scope {scope}`"
            raise HttpError(403, "Forbidden", f"{message}. {how}")
        return key

    def _key_of(self, request: Request) -> Key:
        headers = request.scope["state"]["headers"]
        text = headers.get(b"ocp-apim-subscription-key") or headers.get(b"x-api-key")
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
                address = request.client.host if request.client else ""
                _check_rate(self._unknown_keys, address, "this address sends too many unknown keys")
                message = "the key is unknown or revoked; create one with `glb store keys create`"
                raise HttpError(401, "Unauthorized", message, CHALLENGE)
            seen[digest] = key
        return key


def check_loop(request: Request, loop_name: str | None) -> None:
    """Raise HttpError, 403, if the key of a request is for other loops. None: the request is about all loops."""
    key: Key = request.scope["state"]["key"]
    if not key.may_use(loop_name):
        what = "all loops" if loop_name is None else f"the loop {loop_name!r}"
        message = f"the key must be for {what}; {key.name!r} has {', '.join(key.scopes)}. Use another key"
        raise HttpError(403, "Forbidden", message)


def _check_rate(limit: RateLimit, name: str, problem: str) -> None:
    wait = math.ceil(limit.acquire(name))
    if wait:
        raise HttpError(429, "TooManyRequests", f"{problem}; retry in {wait} s", {"retry-after": str(wait)})
