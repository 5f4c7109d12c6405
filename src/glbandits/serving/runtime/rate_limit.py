"""How often somebody may ask: a bucket of tokens for each name, which fills at a steady rate."""

import time
from collections.abc import Callable

from glbandits.errors import check_float


class RateLimit:
    """Each name may ask `rate` times a second on average, and `rate` times (at least once) at a burst.

    Belongs to one thread. Names are forgotten never, so they must be few: keys, not addresses.

    >>> now = [0.0]
    >>> limit = RateLimit(2.0, clock=lambda: now[0])
    >>> limit.wait("shop"), limit.wait("shop"), limit.wait("shop")
    (0.0, 0.0, 0.5)
    >>> now[0] = 0.5
    >>> limit.wait("shop")
    0.0

    Args:
        rate: tokens a second; 0 for no limit.
        clock: seconds, which never go back.
    """

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = check_float("rate_limit", rate, at_least=0.0), clock
        self._burst = max(1.0, self._rate)
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, name: str) -> float:
        """Take a token: 0 if there was one, else the seconds until there is one, and none is taken."""
        if not self._rate:
            return 0.0
        now = self._clock()
        tokens, since = self._buckets.get(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        if tokens < 1.0:
            return (1.0 - tokens) / self._rate
        self._buckets[name] = (tokens - 1.0, now)
        return 0.0
