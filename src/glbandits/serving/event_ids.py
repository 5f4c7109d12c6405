"""Names for events whose sender gave them none."""

import os
import time


def new_event_id() -> str:
    """32 hexadecimal digits that nobody else has: the milliseconds since 1970, and 80 random bits.

    The time goes first because the log is sorted by these names as well: new ones then lie side by side on the disk,
    and a write touches few of its pages however large the log is.
    """
    return f"{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"
