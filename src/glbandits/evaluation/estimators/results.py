"""What an evaluation says, and how it prints: never a number without what it rests on."""

import math
from dataclasses import dataclass

from glbandits.evaluation.estimators.estimator import Estimator
from glbandits.evaluation.estimators.grouped_moments import Moments
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate, Headline
from glbandits.evaluation.estimators.intervals import UNKNOWN, Interval, bootstrap_interval
from glbandits.evaluation.estimators.support import Support
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
    """For many rows that were not chosen by looking at them, and no huge weight."""
    running: Floats
    """The estimate from the first rows alone, (points,)."""
    support: Support
    moments: Moments
    """Sums over independent groups of rows, of the numbers that the estimate is made of."""

    def __repr__(self) -> str:
        rests_on = f"{self.support.in_words()}, largest weight {self.support.largest_weight:.3g}"
        return f"<{self.name} {self.value:.5f}, {_text(self.normal)}; {rests_on}>"

    @property
    def name(self) -> str:
        """Of the estimator."""
        return self.estimator.name

    def bootstrap(self, level: float = 0.95, seed: int = 0) -> Interval:
        """Return the bootstrap interval, which covers no better than the normal one where weights are large."""
        return bootstrap_interval(self.estimator, self.moments, level, seed) if self.estimator.spread_known else UNKNOWN


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a log says about a target. Print it."""

    headline: Headline | None
    """The doubly robust estimate of the value and of the gain over the log; None if no estimator needed a model."""
    estimates: tuple[Estimate, ...]
    """Of every estimator that was named, to check the headline with."""
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
        lines = [] if self.headline is None else self._headline_lines(self.headline)
        lines.append(f"{'to check':12s} {'value':>10s} {'error':>9s}   {f'{self.level:.0%} normal':^22s}")
        lines += [
            f"{one.name:12s} {one.value:10.5f} {one.standard_error:9.5f}   {_text(one.normal):^22s}"
            for one in self.estimates
        ]
        lines.append(f"{'the log':12s} {self.logged:10.5f} {self.logged_error:9.5f}")
        support = self.support
        lines.append(
            f"{support.rows} rows, {support.in_words()}; weights: mean "
            f"{support.mean_weight:.3f}, largest {support.largest_weight:.3g}; {support.unused:.1%} of rows unused; "
            f"{support.unsupported:.1%} of decisions without support"
        )
        return "\n".join(lines + [f"Note: {note}" for note in self.notes])

    def _headline_lines(self, headline: Headline) -> list[str]:
        every, this = f"{self.level:.0%} at every n", f"{self.level:.0%} at this n only"

        def line(name: str, estimate: DoublyRobustEstimate, sign: str) -> str:
            anytime, fixed = estimate.anytime, estimate.fixed_n
            held = f"none: {anytime}" if isinstance(anytime, str) else _text(anytime.interval)
            once = fixed if isinstance(fixed, str) else _text(fixed)
            return f"{name:12s} {estimate.value:{sign}10.5f} {estimate.standard_error:9.5f}   {held:^22s} {once:^22s}"

        return [
            f"{'':12s} {'value':>10s} {'error':>9s}   {every:^22s} {this:^22s}",
            line("the target", headline.value, ""),
            line("gain on log", headline.gain, "+"),
            "",
        ]

    __repr__ = __str__


def _text(interval: Interval) -> str:
    if math.isnan(interval.low):
        return "unknown"
    return f"[{interval.low:.5f}, {interval.high:.5f}]"
