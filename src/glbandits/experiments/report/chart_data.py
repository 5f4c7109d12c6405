"""What is drawn, apart from how: the same numbers and words for static and interactive charts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glbandits.experiments.experiment import Experiment
from glbandits.experiments.protocols import FRESH, PAPER, Outcome, ProtocolResult
from glbandits.experiments.results import ExperimentResult
from glbandits.records import Floats, Ints

PROTOCOL_TITLES = {PAPER: "Paper's protocol", FRESH: "Fresh seeds"}
SIMULATED = "simulated data"
SETTLED = 20
"""A running mean is shown whole from this part of the horizon on."""
ORDINALS = ("best arm", "2nd best", "3rd best")


@dataclass(frozen=True)
class Curve:
    """One line with its band."""

    label: str
    rounds: Ints
    mean: Floats
    half_width: Floats
    """Of a 95 % confidence interval; NaN where there is none."""

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
        drawn.append(Curve(outcome.label, outcome.rounds, mean, width))
    return drawn


def value_range(experiment: Experiment, drawn: Sequence[Curve]) -> tuple[float, float]:
    """Where the vertical axis begins and ends: a running mean is too wild in its first rounds to be drawn whole."""
    first = 0 if experiment.measure == "regret" else experiment.horizon // SETTLED
    low, high = [], []
    for curve in drawn:
        width = np.nan_to_num(curve.half_width)
        low.append((curve.mean - width)[curve.rounds >= first].min())
        high.append((curve.mean + width)[curve.rounds >= first].max())
    bottom, top = (0.0 if experiment.measure == "regret" else float(min(low))), float(max(high))
    room = 0.04 * (top - bottom) or 1.0
    return bottom - (0.0 if experiment.measure == "regret" else room), top + room


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
    return f"{text} ({SIMULATED})" if result.simulated_data else text


def slug(name: str) -> str:
    """A name that is safe in a file's name and in an id.

    >>> slug("Forest, part 2")
    'forest-part-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "experiment"


def stem(result: ExperimentResult, protocol: ProtocolResult, what: str = "") -> str:
    """The name of a figure's files, without their ending."""
    return "-".join(filter(None, (slug(result.experiment.name), protocol.protocol, what)))


@dataclass(frozen=True)
class BestPulls:
    """How often the best arms were pulled: the median over seeds."""

    arms: tuple[str, ...]
    """The arms, in words."""
    medians: dict[str, Floats]
    """By label, (arms,)."""


def best_pulls(experiment: Experiment, outcomes: Sequence[Outcome]) -> BestPulls:
    """The median pulls of each of the best arms, which are those of the largest value in a seed's first round."""
    places, values = zip(*(_best_places(experiment, seed) for seed in outcomes[0].seeds), strict=True)
    many = min(len(places_of_seed) for places_of_seed in places)
    where = np.array([places_of_seed[:many] for places_of_seed in places])
    medians = {outcome.label: np.median(_pulls_at(outcome.pulls, where), axis=0) for outcome in outcomes}
    names = [ORDINALS[i] if i < len(ORDINALS) else f"{i + 1}th best" for i in range(many)]
    worth = np.array([values_of_seed[:many] for values_of_seed in values])
    if (worth == worth[0]).all():
        names = [f"{name} ({value:.3f})" for name, value in zip(names, worth[0], strict=True)]
    return BestPulls(tuple(names), medians)


def _best_places(experiment: Experiment, seed: int) -> tuple[Ints, Floats]:
    first = next(experiment.environment.rounds(1, seed))
    values = first.values[0, : first.counts[0]]
    places = np.argsort(-values, kind="stable")[: experiment.best_arms]
    return places, values[places]


def _pulls_at(pulls: Floats, places: Ints) -> Floats:
    """Pulls of each seed's own best arms; an arm beyond the last one that was pulled has none."""
    missing = max(0, int(places.max()) + 1 - pulls.shape[1])
    return np.take_along_axis(np.pad(pulls, ((0, 0), (0, missing))), places, axis=1)
