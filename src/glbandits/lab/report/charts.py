"""The interactive charts of an experiment, drawn by Plotly in the page."""

from glbandits.common.display.curve import legend_name
from glbandits.common.display.plotly_helpers import (
    SMALL,
    Chart,
    band_trace,
    base_layout,
    escape_text,
    line_trace,
    six_digits,
)
from glbandits.common.display.series_styles import SeriesStyles
from glbandits.lab.experiments.outcomes import ExperimentResult, ProtocolResult, best_pulls
from glbandits.lab.report.chart_data import (
    SIMULATED,
    band_description,
    curves,
    measure_label,
    protocol_title,
    pulls_range,
    value_range,
)


def curves_chart(result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles) -> Chart:
    """Return the chart of the curves with their bands.

    A click on a name hides its line and its band.
    """
    experiment = result.experiment
    decimals = 1 if experiment.measure == "regret" else 4
    shown = curves(experiment, protocol)
    bands = [band_trace(curve, styles[curve.label]) for curve in shown if curve.has_band]
    lines = [line_trace(curve, styles[curve.label], decimals) for curve in shown]
    title = f"{experiment.name}: {protocol_title(result, protocol)}"
    layout = _layout(result, title, band_description(protocol))
    layout["xaxis"] |= {"title": {"text": "round", "font": SMALL}, "range": [0, experiment.horizon]}
    layout["yaxis"] |= {"title": {"text": measure_label(experiment), "font": SMALL}}
    layout["yaxis"]["range"] = six_digits(value_range(result))
    return {"data": bands + lines, "layout": layout}  # bands first: they are drawn below all lines


def pulls_chart(result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles) -> Chart:
    """Return a bar chart of the median pulls of the best arms."""
    experiment = result.experiment
    pulls = best_pulls(result, protocol)
    extras = {outcome.label for outcome in protocol.outcomes if outcome.is_extra}
    traces = [
        {
            "type": "bar",
            "name": escape_text(legend_name(label, label in extras)),
            "legendgroup": escape_text(label),  # makes Plotly lay out the legend in lines, not in columns
            "x": [escape_text(arm).replace(" (", "<br>(") for arm in pulls.arms],
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
    subtitle = f"pulls of the {experiment.best_arms} best arms, median of {seeds} seed{'s' * (seeds > 1)}"
    layout = _layout(result, f"{experiment.name}: {protocol_title(result, protocol)}", subtitle)
    layout["yaxis"] |= {"title": {"text": "median pulls", "font": SMALL}, "range": six_digits(pulls_range(result))}
    layout |= {"barmode": "group", "bargap": 0.15}
    return {"data": traces, "layout": layout}


def _layout(result: ExperimentResult, title: str, subtitle: str) -> Chart:
    return base_layout(title, subtitle, [SIMULATED] * result.simulated_data)
