"""The figures of docs/evaluate.md.

`python -m benchmarks coverage_figures` simulates 400 logs of 2,000 rows (floor 0.05, arms that vary) and writes
docs/images/coverage.png and docs/images/looks.png.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import altair as alt
import numpy as np

from benchmarks.learning_logs import DIM, LearningLog, learning_log
from glbandits.common.arrays import Floats
from glbandits.common.display.charts import chart_png, finish, inline, titled
from glbandits.common.display.palette import GREEN, ORANGE, PINK, SKY_BLUE, VERMILLION
from glbandits.evaluation import evaluate
from glbandits.evaluation.estimators.anytime import AnytimeSums
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.estimators.log_rows import RowReader
from glbandits.evaluation.estimators.measures import Measure
from glbandits.evaluation.models.reward_models import SequentialGlm
from glbandits.maths.links import find_link

LOGS, ROWS, STEP = 400, 2000, 200
TARGETS = ("uniform", "good", "bad", "final")
COLOURS = {
    "normal, ips": VERMILLION,
    "normal, snips": ORANGE,
    "normal, dr": PINK,
    "fixed n": SKY_BLUE,
    "anytime": GREEN,
}
FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images"


class Coverage(NamedTuple):
    """Intervals and coverage for one log."""

    at_end: Floats
    """Whether each interval contains the true value after all rows, (targets, intervals)."""
    paths: Floats
    """Low and high of the normal interval of dr and of the anytime-valid one, by looks, (targets, 2, looks, 2)."""
    truths: Floats
    """(targets,)."""


def coverage_of(seed: int) -> Coverage:
    """Simulate a log and evaluate all targets."""
    simulated = learning_log(seed, ROWS)
    at_end, paths = [], []
    for target in TARGETS:
        evaluation, truth = evaluate(simulated.log, simulated.targets[target]), simulated.values[target]
        assert evaluation.headline is not None
        intervals: list[Interval | None] = [evaluation[name].normal for name in ("ips", "snips", "dr")]
        intervals += [evaluation.headline.value.fixed_n, evaluation.headline.value.interval]
        at_end.append([interval is None or interval.low <= truth <= interval.high for interval in intervals])
        paths.append(_paths(simulated, target))
    return Coverage(np.array(at_end), np.array(paths), np.array([simulated.values[target] for target in TARGETS]))


def _paths(simulated: LearningLog, target: str) -> list[list[Interval]]:
    log, probabilities = simulated.log, simulated.targets[target]
    sequence = AnytimeSums(Measure.VALUE, (0.0, 1.0))
    reader = RowReader((0.0, 1.0), None, SequentialGlm(find_link("logistic"), DIM))
    normal, anytime = [], []
    for rows in range(STEP, ROWS + 1, STEP):
        read = reader.read(log[rows - STEP : rows])
        sequence.add(read, Measure.VALUE.of_rows(read, probabilities[rows - STEP : rows]))
        now = sequence.interval(0.95)
        anytime.append(now.interval)
        normal.append(evaluate(log[:rows], probabilities[:rows], "dr")["dr"].normal)
    return [normal, anytime]


def report() -> None:
    """Simulate the logs and write both figures."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(coverage_of, range(LOGS), chunksize=5))
    covered = np.mean([outcome.at_end for outcome in outcomes], axis=0)
    for target, row in zip(TARGETS, covered, strict=True):
        print(f"{target:8s} " + "  ".join(f"{name} {share:.3f}" for name, share in zip(COLOURS, row, strict=True)))
    _draw_coverage(covered)
    _draw_looks(outcomes)


def _draw_coverage(covered: Floats) -> None:
    rows = [
        {"target": f"{target} target", "interval": name, "share": float(share)}
        for target, shares in zip(TARGETS, covered, strict=True)
        for name, share in zip(COLOURS, shares, strict=True)
    ]
    share = alt.Y("share:Q", title="share of logs", scale=alt.Scale(domain=[0.5, 1.02]))
    bars = (
        alt.Chart(inline(rows))
        .mark_bar(clip=True)
        .encode(
            x=alt.X("target:N", title=None, sort=None, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("interval:N", sort=[*COLOURS]),
            y=share,
            color=_colour(),
        )
    )
    level = alt.Chart(inline([{"share": 0.95}])).mark_rule(strokeDash=[5, 3]).encode(y=share)
    title = f"95 % intervals that contain the true value, {ROWS:,} rows, {LOGS:,} logs"
    chart = alt.layer(bars, level).properties(width=640, height=240)
    (FOLDER / "coverage.png").write_bytes(chart_png(finish(chart, title, wrap=100).to_json()))


def _draw_looks(outcomes: list[Coverage]) -> None:
    looks = np.arange(STEP, ROWS + 1, STEP)
    good = TARGETS.index("good")
    intervals, missed = [], []
    for index, name in enumerate(("normal, dr", "anytime")):
        for rows, (low, high) in zip(looks.tolist(), outcomes[0].paths[good, index].tolist(), strict=True):
            intervals.append({"interval": name, "rows": rows, "low": low, "high": high})
        for target in ("good", "uniform"):
            at = TARGETS.index(target)
            wrong = np.array(
                [
                    (outcome.paths[at, index, :, 0] > outcome.truths[at])
                    | (outcome.paths[at, index, :, 1] < outcome.truths[at])
                    for outcome in outcomes
                ]
            )
            ever = np.maximum.accumulate(wrong, axis=1).mean(axis=0)
            print(f"{name}, {target}: excluded the true value at some look in {ever[-1]:.1%} of logs")
            for rows, share in zip(looks.tolist(), ever.tolist(), strict=True):
                missed.append({"interval": name, "target": f"{target} target", "rows": rows, "share": share})
    value = alt.Y("low:Q", title="value", scale=alt.Scale(domain=[0.3, 1.0]))
    bands = alt.Chart(inline(intervals)).mark_area(opacity=0.45, clip=True)
    left = alt.layer(
        bands.encode(x="rows:Q", y=value, y2="high:Q", color=_colour()),
        alt.Chart(inline([{"low": float(outcomes[0].truths[good])}])).mark_rule().encode(y=value),
    )
    lines = alt.Chart(inline(missed)).mark_line()
    dash = alt.StrokeDash("target:N", title=None, legend=alt.Legend(orient="bottom"))
    right = alt.layer(
        lines.encode(x="rows:Q", y=alt.Y("share:Q", title="share of logs"), color=_colour(), strokeDash=dash),
        alt.Chart(inline([{"share": 0.05}])).mark_rule(strokeDash=[5, 3]).encode(y="share:Q"),
    )
    panels = [
        titled(left, "One log: interval of the good target at each look", wrap=60),
        titled(right, "Logs whose interval was wrong at some look"),
    ]
    figure = alt.hconcat(*(panel.properties(width=380, height=260) for panel in panels))
    (FOLDER / "looks.png").write_bytes(chart_png(finish(figure).to_json()))


def _colour() -> alt.Color:
    scale = alt.Scale(domain=[*COLOURS], range=[*COLOURS.values()])
    return alt.Color("interval:N", title=None, scale=scale, legend=alt.Legend(orient="bottom"))
