"""Natural sort order."""

import re
from collections.abc import Iterable


def natural_order(names: Iterable[str]) -> tuple[str, ...]:
    """Sort names so that numbers in them are compared as numbers.

    >>> natural_order(["item 10", "item 9", "a"])
    ('a', 'item 9', 'item 10')
    """

    def parts(name: str) -> tuple[list[tuple[bool, int, str]], str]:
        pieces = re.split(r"([0-9]{1,18})", name)
        numbered = [(False, int(p), "") if p.isdecimal() and p.isascii() else (True, 0, p) for p in pieces if p]
        return numbered, name

    return tuple(sorted(names, key=parts))
