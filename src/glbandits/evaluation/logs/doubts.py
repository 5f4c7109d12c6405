"""Doubt: why a verdict on a log may be wrong. All checks of logs, targets and estimates report one."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class DoubtKind(StrEnum):
    """What is in doubt."""

    CHANGED = "changed"
    """The logging policy or the rewards changed over the rows."""
    COPIES = "copies"
    """Rows repeat other rows."""
    ORDER = "order"
    """Rows are not in the order of their decisions."""
    LEAK = "leak"
    """A column was known only after the decision."""
    DISAGREEMENT = "disagreement"
    """Two estimates of the same value differ."""


class Withheld(StrEnum):
    """Which verdicts a doubt withholds."""

    NOTHING = "nothing"
    GAIN = "gain"
    """Those that compare a candidate with the logging policy."""
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """One doubt. `str()` is its text."""

    kind: DoubtKind
    text: str
    """What is wrong and what to do, as one or two sentences without a final dot."""
    short: str
    """What is wrong, in a few words, for the sentence that withholds a verdict."""
    withholds: Withheld = Withheld.ALL
    since: int | None = None
    """The first row after a change; None if the doubt is not about a change."""
    features: tuple[int, ...] = ()
    """The features of the context that come from a leaked column, if only the reward explains them. Targets and reward
    models that do not read them are not in doubt."""

    def __str__(self) -> str:
        return self.text


def reason_to_withhold(doubts: Iterable[Doubt], *verdicts: Withheld) -> str:
    """Return why verdicts of these kinds are withheld, in a few words; "" if they are not."""
    return "; ".join(dict.fromkeys(doubt.short for doubt in doubts if doubt.withholds in verdicts))
