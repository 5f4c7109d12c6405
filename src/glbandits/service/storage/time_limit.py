"""A limit of the time that the reads of a thread may take."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from glbandits.service.domain.errors import ReadTimeout

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)
"""By `time.monotonic`."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Let all reads of this thread from a store raise ReadTimeout after so many seconds."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def time_left() -> float | None:
    """Return the seconds that the next read may take; None without a limit. Raises ReadTimeout if none are left."""
    deadline = _deadline.get()
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and left <= 0.0:
        raise ReadTimeout("reading the store took too long")
    return left
