"""What an evaluation says, and how it prints: never a number without what it rests on."""

import math
from dataclasses import dataclass

from glbandits.evaluation.estimator import Estimator
from glbandits.evaluation.intervals import Interval
from glbandits.evaluation.moments import Moments
from glbandits.evaluation.support import Support
from glbandits.records import Floats, Ints


@dataclass(frozen=True, eq=False)
class Estimate:
    """What one estimator says."""

    estimator: Estimator
    value: float
    """The mean reward of a decision, had the target decided."""
    standard_error: float
    """NaN if the spread of the rows does not tell it."""
    normal: Interval
    bootstrap: Interval
    bernstein: Interval | str
    """For any number of rows; or why there is none."""
    running: Floats
    """The estimate from the first rows alone, (points,)."""
    support: Support
    moments: Moments
    """Sums over independent groups of rows, of the numbers that the estimate is made of."""

    def __repr__(self) -> str:
        rests_on = f"worth {self.support.effective_rows:.0f} rows, largest weight {self.support.largest_weight:.3g}"
        return f"<{self.name} {self.value:.5f}, {_text(self.normal)}; {rests_on}>"

    @property
    def name(self) -> str:
        """Of the estimator."""
        return self.estimator.name


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a log says about a target. Print it."""

    estimates: tuple[Estimate, ...]
    logged: float
    """The mean reward of the log itself."""
    logged_error: float
    """The standard error of that."""
    support: Support
    level: float
    """Of the intervals."""
    notes: tuple[str, ...]
    """What a reader must know."""
    at_rows: Ints
    """Rows after which `running` was looked at, (points,)."""
    arm_names: tuple[str, ...] | None

    def __getitem__(self, name: str) -> Estimate:
        """The estimate of an estimator, by its name."""
        for estimate in self.estimates:
            if estimate.name == name:
                return estimate
        raise KeyError(f"{name!r} was not asked for; there are {', '.join(one.name for one in self.estimates)}")

    def __str__(self) -> str:
        normal, bootstrap = f"{self.level:.0%} normal", f"{self.level:.0%} bootstrap"
        lines = [f"{'estimator':12s} {'value':>10s} {'error':>9s}   {normal:^22s} {bootstrap:^22s} for any n"]
        lines += [
            f"{one.name:12s} {one.value:10.5f} {one.standard_error:9.5f}   {_text(one.normal):^22s} "
            f"{_text(one.bootstrap):^22s} {one.bernstein if isinstance(one.bernstein, str) else _text(one.bernstein)}"
            for one in self.estimates
        ]
        lines.append(f"{'the log':12s} {self.logged:10.5f} {self.logged_error:9.5f}")
        support = self.support
        lines.append(
            f"{support.rows} rows, worth {support.effective_rows:.0f} of the target's own; weights: mean "
            f"{support.mean_weight:.3f}, largest {support.largest_weight:.3g}; {support.unused:.1%} of rows unused; "
            f"{support.unsupported:.1%} of decisions without support"
        )
        return "\n".join(lines + [f"Note: {note}" for note in self.notes])

    __repr__ = __str__


def _text(interval: Interval) -> str:
    if math.isnan(interval.low):
        return "unknown"
    return f"[{interval.low:.5f}, {interval.high:.5f}]"
