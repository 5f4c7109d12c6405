"""LogSchema: what a log has. Its reader declares it once, and it travels with the log."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeAlias

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.doubts import Doubt
from glbandits.features.transformer_features import Features
from glbandits.maths.links import Link

Dates: TypeAlias = tuple[tuple[int, str], ...]
"""The first row of each date, and the date."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LogSchema:
    """What the rows of a log have."""

    rows: int
    dim: int
    """Number of features of an arm."""
    max_arms: int
    """Largest number of arms in a row."""
    names: tuple[str, ...] = ()
    """Names of all arms, over all rows; empty if arms have no names."""
    same_arms: bool = False
    """Whether all rows have the same arms in the same order. Their features may differ."""
    same_features: bool = False
    """Whether all rows have the same arms with the same features (`FixedArms`)."""
    sparse: bool = False
    """Whether the arms are `SparseArms`."""
    feature_map: Features | None = None
    """The map from table columns to features; None if the log was built from numeric features."""
    link: str | Link = "identity"
    link_inferred: bool = False
    """Whether the link was inferred from the rewards."""
    propensities: bool = True
    """Whether rows have the probability of the chosen arm."""
    probabilities: bool = False
    """Whether rows have the probabilities of all arms."""
    estimated: bool = False
    """Whether the propensities were estimated from the log itself."""
    payoffs: bool = False
    """Whether rows have values and costs of arms. Estimates are then payoffs."""
    fixed_payoffs: tuple[tuple[float, float], ...] = ()
    """The value and the cost of each arm, if a table says them for all rows, also for those to come."""
    clusters: bool = False
    proposed: tuple[str, ...] = ()
    """Names of other systems whose arms the log has (`LoggedData.proposed`)."""
    other_rewards: Mapping[str, str | Link] = field(default_factory=dict)
    """The links of the other rewards of the rows (`LoggedData.other_rewards`), by their names."""
    doubts: tuple[Doubt, ...] = ()
    """Doubts that the reader of the log found."""
    content: tuple[tuple[str, int, int], ...] = ()
    """The files of the log with their sizes and times of change; empty if it is in memory or not on this machine."""
    dates: Dates = ()
    """Those of the rows, if they are in the order of a time."""
    first_row: int | None = 0
    """Row of the stored table with which the log begins. Blocks end at multiples of their size from its row 0 on; None
    if they end elsewhere."""

    @property
    def arm_names(self) -> tuple[str, ...] | None:
        """Names of the arms in their order; None if rows have different arms, or if arms have no names."""
        return self.names if self.same_arms and self.names else None

    @property
    def unit(self) -> str:
        """What estimates are means of: "payoff", or "reward" if the log has no values."""
        return "payoff" if self.payoffs else "reward"

    def needs_payoff_range(self, declared: tuple[float, float] | None) -> bool:
        """Whether the possible payoffs are known from the rows only, so that they may change while the log grows."""
        return self.payoffs and not self.fixed_payoffs and declared is None

    def check_propensities(self) -> None:
        """Raise InvalidInput if the log has no propensities."""
        if not self.propensities:
            raise InvalidInput(
                "log must have propensities, the probabilities of the chosen arms; got none. If they are unknown, call "
                "estimate_propensities(log)"
            )


def period(dates: Dates, start: int, stop: int) -> str:
    """Return the first and the last date of the rows `start` to `stop` - 1; "" if they are unknown."""
    if not dates or stop <= start:
        return ""
    first, last = (dates[bisect_right(dates, row, key=itemgetter(0)) - 1][1] for row in (start, stop - 1))
    return first if first == last else f"{first} to {last}"
