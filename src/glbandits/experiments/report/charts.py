"""Interactive charts: figures as plain data, which Plotly's script draws in the page."""

from glbandits.experiments.best_pulls import best_pulls
from glbandits.experiments.outcomes import ExperimentResult, ProtocolResult
from glbandits.experiments.report.chart_data import (
    SIMULATED,
    curves,
    measure_in_words,
    pulls_range,
    series_name,
    spread_in_words,
    title_of,
    value_range,
)
from glbandits.experiments.report.plotly_helpers import SMALL, Chart, band, base_layout, line, plain, short
from glbandits.experiments.report.series_styles import SeriesStyles


def curves_chart(result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles) -> Chart:
    """The curves with their bands; a click on a name hides both."""
    experiment = result.experiment
    decimals = 1 if experiment.measure == "regret" else 4
    drawn = curves(experiment, protocol)
    bands = [band(curve, styles[curve.label]) for curve in drawn if curve.has_band]  # below all lines
    lines = [line(curve, styles[curve.label], decimals) for curve in drawn]
    title = f"{experiment.name}: {title_of(result, protocol)}"
    layout = _layout(result, title, spread_in_words(protocol))
    layout["xaxis"] |= {"title": {"text": "round", "font": SMALL}, "range": [0, experiment.horizon]}
    layout["yaxis"] |= {"title": {"text": measure_in_words(experiment), "font": SMALL}}
    layout["yaxis"]["range"] = short(value_range(result))
    return {"data": bands + lines, "layout": layout}


def pulls_chart(result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles) -> Chart:
    """The median pulls of the best arms, as bars."""
    experiment = result.experiment
    pulls = best_pulls(result, protocol)
    extras = {outcome.label for outcome in protocol.outcomes if outcome.is_extra}
    traces = [
        {
            "type": "bar",
            "name": plain(series_name(label, label in extras)),
            "legendgroup": plain(label),  # makes names flow in lines, not stand in columns
            "x": [plain(arm).replace(" (", "<br>(") for arm in pulls.arms],
            "y": medians.tolist(),
            "marker": {
                "color": styles[label].colour,
                "pattern": {"shape": styles[label].plotly_hatch, "fgcolor": "#ffffff", "size": 6, "solidity": 0.25},
            },
            "hovertemplate": "%{y:.0f} pulls",
        }
        for label, medians in pulls.medians.items()
    ]
    seeds = len(protocol.outcomes[0].seeds)
    under = f"pulls of the {experiment.best_arms} best arms, median of {seeds} seed{'s' * (seeds > 1)}"
    layout = _layout(result, f"{experiment.name}: {title_of(result, protocol)}", under)
    layout["yaxis"] |= {"title": {"text": "median pulls", "font": SMALL}, "range": short(pulls_range(result))}
    layout |= {"barmode": "group", "bargap": 0.15}
    return {"data": traces, "layout": layout}


def _layout(result: ExperimentResult, title: str, under: str) -> Chart:
    return base_layout(title, under, [SIMULATED] * result.simulated_data)
