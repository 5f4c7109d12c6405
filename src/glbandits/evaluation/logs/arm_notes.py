"""Notes about the names of the arms of a log: variants of one name, and arms with very few rows."""

from collections.abc import Mapping

from glbandits.features.kinds.near_duplicates import names_with_counts, near_duplicates

RARE_ROWS = 10
"""An arm with fewer rows is very rare, unless most arms are."""
MAX_GROUPS = 10
"""The number of groups of similar names that a note shows."""


def variants_note(groups: list[tuple[str, ...]], counts: Mapping[str, int], what: str, column: str) -> str:
    """Name the values of a column that may be variants of one another, and how to correct them.

    Args:
        groups: from `near_duplicates`.
        counts: the number of rows of each value.
        what: the values, such as "arms".
        column: their column.
    """
    shown = "; ".join(names_with_counts(group, counts) for group in groups[:MAX_GROUPS])
    more = f"; and {len(groups) - MAX_GROUPS} more groups" if len(groups) > MAX_GROUPS else ""
    first = groups[0]
    return (
        f"some {what} have names that differ only in case, accents, spaces or one letter: {shown}{more}. They count as "
        f"different {what}. If they are the same, correct the column, such as "
        f"frame[{column!r}].replace({dict.fromkeys(first[1:4], first[0])})"
    )


def arm_notes(counts: Mapping[str, int], column: str) -> list[str]:
    """Notes about arms that may be variants of one another, and about arms with very few rows.

    >>> arm_notes({"news": 4000, "News": 3, "shop": 3990, "old": 2}, "arm")[1]
    "the arm 'old' (2 rows) has fewer than 10 of 7,995 rows: the log has almost no evidence on it. Drop ..."

    Args:
        counts: the number of rows of each arm.
        column: the column of the arms.
    """
    groups, rows = near_duplicates(counts), sum(counts.values())
    notes = [variants_note(groups, counts, "arms", column)] if groups else []
    variants = {name for group in groups for name in group}
    are_rare = {name for name, count in counts.items() if count < RARE_ROWS}
    rare = [name for name in counts if name in are_rare - variants]
    if rare and 2 * len(are_rare) <= len(counts):
        arms, have, them = ("the arm", "has", "it") if len(rare) == 1 else ("the arms", "have", "them")
        each = "" if len(rare) == 1 else " each"
        notes.append(
            f"{arms} {names_with_counts(rare, counts)} {have} fewer than {RARE_ROWS} of {rows:,} rows{each}: the log "
            f"has almost no evidence on {them}. Drop these rows if the name is wrong or the arm is no longer used"
        )
    return notes
