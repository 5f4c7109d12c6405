"""Find names that may be variants of one name: in case, accents or spaces, or by a typing error."""

import re
from collections.abc import Mapping, Sequence
from unicodedata import combining, normalize

from glbandits.common.errors import value_text

RARE_SHARE = 0.05
"""A name is a typing error only if it is this rare, compared with the right name."""
TYPED_LENGTHS = range(4, 41)
"""Lengths of names in which typing errors are searched. Many short names differ in one letter."""
MAX_COMPARED = 5
"""The number of similar names with which a rare name is compared: the most frequent ones."""
MAX_NAMES = 10_000
"""The largest number of names in which typing errors are searched."""
SEPARATORS = re.compile(r"[\s_-]+")


def near_duplicates(counts: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Groups of names that may be variants of one name, each from its most frequent to its rarest name.

    Names are variants if they differ only in case, accents, spaces, hyphens and underscores; or if one is rare, and
    differs from a frequent one by a letter that is missing, added or wrong, or by two letters in the wrong order.
    Names that differ in digits are no variants.

    >>> near_duplicates({"Café": 90, "cafe": 80, "news": 99, "nwes": 2, "item 1": 50, "item 2": 1})
    [('news', 'nwes'), ('Café', 'cafe')]

    Args:
        counts: the number of rows of each name.
    """
    rank = {name: at for at, name in enumerate(sorted(counts, key=lambda name: (-counts[name], name)))}
    variants: dict[str, list[str]] = {}
    for name in rank:
        variants.setdefault(_folded(name), []).append(name)
    right = _typing_errors({key: sum(counts[name] for name in group) for key, group in variants.items()}, variants)
    for key in reversed(right):  # the rarest ones first, because the right form may be an error itself
        variants[right[key]] += variants.pop(key)
    groups = [tuple(sorted(group, key=rank.__getitem__)) for group in variants.values() if len(group) > 1]
    return sorted(groups, key=lambda group: rank[group[0]])


def _folded(name: str) -> str:
    """The name in lower case, without accents, and with one space for all separators."""
    plain = "".join(char for char in normalize("NFKD", name) if not combining(char)).casefold()
    return SEPARATORS.sub(" ", plain).strip() or name


def _typing_errors(counts: Mapping[str, int], variants: Mapping[str, list[str]]) -> dict[str, str]:
    """The probable right form of each folded name with a typing error.

    Two texts can differ by one edit only if they are equal after at most one letter is left out of each, so names are
    compared only within such groups.
    """
    errors: dict[str, str] = {}
    if len(counts) > MAX_NAMES:
        return errors
    similar: dict[str, list[str]] = {}
    for key in sorted((key for key in counts if len(key) in TYPED_LENGTHS), key=lambda key: -counts[key]):
        shortened = {key, *(key[:at] + key[at + 1 :] for at, char in enumerate(key) if not char.isdigit())}
        frequent = {other for text in shortened for other in similar.get(text, ())}
        for other in sorted(frequent, key=lambda other: (-counts[other], other)):
            labelled = any(map(_has_label, (*variants[key], *variants[other])))
            if counts[key] <= RARE_SHARE * counts[other] and _is_one_edit(key, other) and not labelled:
                errors[key] = other
                break
        for text in shortened:
            if len(group := similar.setdefault(text, [])) < MAX_COMPARED:
                group.append(key)
    return errors


def _has_label(name: str) -> bool:
    """Whether a name ends with a letter as a label, such as "offer B" and "groupB"."""
    return re.search(r"(?:[\s_-]\w|[a-z][A-Z])$", name) is not None


def _is_one_edit(first: str, second: str) -> bool:
    """Whether one letter is missing, added or wrong, or two are in the wrong order. Digits must be equal."""
    left, right = first, second
    for _ in range(2):  # leave out what both start with, and then what both end with
        common = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
        common = min(len(left), len(right)) if common is None else common
        left, right = left[common:][::-1], right[common:][::-1]
    if any(char.isdigit() for char in left + right):
        return False
    return max(len(left), len(right)) <= 1 or (len(left) == 2 and left == right[::-1])


def names_with_counts(names: Sequence[str], counts: Mapping[str, int], most: int = 10) -> str:
    """Names with their numbers of rows, for a sentence.

    >>> names_with_counts(["news", "nwes"], {"news": 1200, "nwes": 2})
    "'news' (1,200 rows), 'nwes' (2 rows)"
    """
    texts = [f"{value_text(name, 40)} ({counts[name]:,} row{'s' * (counts[name] != 1)})" for name in names[:most]]
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return ", ".join([*texts, *more])
