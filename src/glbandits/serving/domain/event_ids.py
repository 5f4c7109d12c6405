"""Names for events whose sender gave them none."""

import os
import random
import time

# Not `os.urandom`, which gives Python's lock away at every call. The ids need not be secret: who rewards needs a key.
_random = random.Random()
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_random.seed)


def new_event_id() -> str:
    """32 hexadecimal digits that nobody else has: the milliseconds since 1970, and 80 random bits.

    The time goes first because the log is sorted by these names as well: new ones then lie side by side on the disk,
    and a write touches few of its pages however large the log is.
    """
    return (time.time_ns() // 1_000_000 << 80 | _random.getrandbits(80)).to_bytes(16, "big").hex()
