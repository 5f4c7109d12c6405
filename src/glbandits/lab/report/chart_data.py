"""The data and labels of charts, shared by the static figures and the interactive charts."""

import re

import numpy as np

from glbandits.common.display.curve import Curve
from glbandits.lab.experiments.experiment import Experiment
from glbandits.lab.experiments.outcomes import FRESH, PAPER, ExperimentResult, ProtocolResult, best_pulls

PROTOCOL_TITLES = {PAPER: "Paper's protocol", FRESH: "Fresh seeds"}
SIMULATED = "simulated data"
IGNORED_START = 20
"""The vertical axis of a running mean ignores the first 1/20 of the horizon, which is noisy."""


def curves(experiment: Experiment, result: ProtocolResult) -> list[Curve]:
    """Return the cumulative regret, or the running mean of expected reward, of each policy."""
    converted = []
    for outcome in result.outcomes:
        mean, half_width = outcome.mean, outcome.half_width
        if experiment.measure == "reward":
            mean, half_width = (result.best_reward - mean) / outcome.rounds, half_width / outcome.rounds
        converted.append(Curve(outcome.label, outcome.rounds, mean, half_width, outcome.is_extra))
    return converted


def value_range(result: ExperimentResult) -> tuple[float, float]:
    """Return the range of the vertical axis, the same for all protocols."""
    experiment = result.experiment
    is_regret = experiment.measure == "regret"
    first = 0 if is_regret else experiment.horizon // IGNORED_START
    low, high = [], []
    for curve in (curve for protocol in result.protocols for curve in curves(experiment, protocol)):
        half_width = np.nan_to_num(curve.half_width)
        low.append((curve.mean - half_width)[curve.rounds >= first].min())
        high.append((curve.mean + half_width)[curve.rounds >= first].max())
    bottom, top = (0.0 if is_regret else float(min(low))), float(max(high))
    margin = 0.04 * (top - bottom) or 1.0
    return bottom - (0.0 if is_regret else margin), top + margin


def pulls_range(result: ExperimentResult) -> tuple[float, float]:
    """Return the range of the vertical axis of pulls, the same for all protocols."""
    medians = [
        values.max() for protocol in result.protocols for values in best_pulls(result, protocol).medians.values()
    ]
    return 0.0, 1.05 * float(max(medians)) or 1.0


def measure_label(experiment: Experiment) -> str:
    """Return the label of the vertical axis."""
    return "cumulative regret" if experiment.measure == "regret" else "running mean of expected reward"


def band_description(result: ProtocolResult) -> str:
    """Return what the line and the band show."""
    seeds = len(result.outcomes[0].seeds)
    return "one seed" if seeds == 1 else f"mean of {seeds} seeds, band: 95 %"


def protocol_title(result: ExperimentResult, protocol: ProtocolResult) -> str:
    """Return the title of a protocol, which mentions the thin grid if it was used."""
    return PROTOCOL_TITLES[protocol.protocol] + (", thin grid" if result.quick else "")


def mark_simulated(title: str, result: ExperimentResult) -> str:
    """Append a remark to a title if the data are simulated."""
    return f"{title} ({SIMULATED})" if result.simulated_data and "simulated" not in title.lower() else title


def slug(name: str) -> str:
    """Return a name that is safe in file names and HTML ids.

    >>> slug("Forest, part 2")
    'forest-part-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "experiment"


def figure_stem(result: ExperimentResult, *parts: str) -> str:
    """Return the file name of a figure without suffix: the experiment and these parts."""
    return "-".join((slug(result.experiment.name), *parts))
