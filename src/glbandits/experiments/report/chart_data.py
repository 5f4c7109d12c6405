"""What is drawn, apart from how: the same numbers and words for static and interactive charts."""

import re
from dataclasses import dataclass

import numpy as np

from glbandits.experiments.best_pulls import best_pulls
from glbandits.experiments.experiment import Experiment
from glbandits.experiments.outcomes import FRESH, PAPER, ExperimentResult, ProtocolResult
from glbandits.records import Floats, Ints

PROTOCOL_TITLES = {PAPER: "Paper's protocol", FRESH: "Fresh seeds"}
SIMULATED = "simulated data"
SETTLED = 20
"""A running mean is shown whole from this part of the horizon on."""


@dataclass(frozen=True)
class Curve:
    """One line with its band."""

    label: str
    rounds: Ints
    mean: Floats
    half_width: Floats
    """Of a 95 % confidence interval; NaN where there is none."""
    is_extra: bool = False
    """Whether the paper does not have this policy."""

    @property
    def has_band(self) -> bool:
        """A single seed gives none."""
        return bool(np.isfinite(self.half_width).all())


def curves(experiment: Experiment, result: ProtocolResult) -> list[Curve]:
    """Cumulative regret, or the running mean of expected reward."""
    drawn = []
    for outcome in result.outcomes:
        mean, width = outcome.mean, outcome.half_width
        if experiment.measure == "reward":
            mean, width = (result.best_reward - mean) / outcome.rounds, width / outcome.rounds
        drawn.append(Curve(outcome.label, outcome.rounds, mean, width, outcome.is_extra))
    return drawn


def value_range(result: ExperimentResult) -> tuple[float, float]:
    """The vertical axis, one for all protocols, so that they can be compared.

    The first rounds of a running mean are too noisy to determine it.
    """
    experiment = result.experiment
    is_regret = experiment.measure == "regret"
    first = 0 if is_regret else experiment.horizon // SETTLED
    low, high = [], []
    for curve in (curve for protocol in result.protocols for curve in curves(experiment, protocol)):
        width = np.nan_to_num(curve.half_width)
        low.append((curve.mean - width)[curve.rounds >= first].min())
        high.append((curve.mean + width)[curve.rounds >= first].max())
    bottom, top = (0.0 if is_regret else float(min(low))), float(max(high))
    room = 0.04 * (top - bottom) or 1.0
    return bottom - (0.0 if is_regret else room), top + room


def pulls_range(result: ExperimentResult) -> tuple[float, float]:
    """The vertical axis of pulls, one for all protocols."""
    medians = [
        values.max() for protocol in result.protocols for values in best_pulls(result, protocol).medians.values()
    ]
    return 0.0, 1.05 * float(max(medians)) or 1.0


def measure_in_words(experiment: Experiment) -> str:
    """What the vertical axis shows."""
    return "cumulative regret" if experiment.measure == "regret" else "running mean of expected reward"


def spread_in_words(result: ProtocolResult) -> str:
    """What the line and the band are."""
    seeds = len(result.outcomes[0].seeds)
    return "one seed" if seeds == 1 else f"mean of {seeds} seeds, band: 95 %"


def title_of(result: ExperimentResult, protocol: ProtocolResult) -> str:
    """The protocol as a title, which says so if the grid was thin."""
    return PROTOCOL_TITLES[protocol.protocol] + (", thin grid" if result.quick else "")


def named(text: str, result: ExperimentResult) -> str:
    """A title that says so if the data are simulated."""
    return f"{text} ({SIMULATED})" if result.simulated_data and "simulated" not in text.lower() else text


def series_name(label: str, is_extra: bool) -> str:
    """The name of a series in a legend."""
    return f"{label} (not in the paper)" if is_extra else label


def slug(name: str) -> str:
    """A name that is safe in a file's name and in an id.

    >>> slug("Forest, part 2")
    'forest-part-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "experiment"


def stem(result: ExperimentResult, *parts: str) -> str:
    """The name of a figure's files without their ending: the experiment's name and these parts."""
    return "-".join((slug(result.experiment.name), *parts))
