"""Rate limits: a token bucket for each name."""

import time
from collections.abc import Callable

from glbandits.common.errors import check_float

MAX_NAMES = 10_000


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
