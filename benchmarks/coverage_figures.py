"""The figures of docs/logs-of-a-learning-policy.md and docs/looking-more-than-once.md.

`python -m benchmarks coverage_figures` simulates 400 logs of 2,000 rows (floor 0.05, arms that vary) and writes
docs/images/coverage.png and docs/images/looks.png.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.learning_logs import DIM, LearningLog, learning_log
from glbandits.common.arrays import Floats
from glbandits.common.display.palette import GREEN, ORANGE, PINK, SKY_BLUE, VERMILLION
from glbandits.evaluation import Interval, evaluate
from glbandits.evaluation.estimators.anytime import AnytimeIntervals
from glbandits.evaluation.estimators.log_rows import RowReader
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
        intervals: list[Interval | str] = [evaluation[name].normal for name in ("ips", "snips", "dr")]
        intervals += [evaluation.headline.value.fixed_n, evaluation.headline.value.interval]
        at_end.append([isinstance(interval, str) or interval.low <= truth <= interval.high for interval in intervals])
        paths.append(_paths(simulated, target))
    return Coverage(np.array(at_end), np.array(paths), np.array([simulated.values[target] for target in TARGETS]))


def _paths(simulated: LearningLog, target: str) -> list[list[Interval]]:
    log, probabilities = simulated.log, simulated.targets[target]
    sequence = AnytimeIntervals((0.0, 1.0))
    reader = RowReader((0.0, 1.0), None, SequentialGlm(find_link("logistic"), DIM))
    normal, anytime = [], []
    for rows in range(STEP, ROWS + 1, STEP):
        sequence.add(reader.read(log[rows - STEP : rows]), probabilities[rows - STEP : rows])
        now = sequence.value(0.95)
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
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for index, (name, colour) in enumerate(COLOURS.items()):
        axes.bar(np.arange(len(TARGETS)) + 0.16 * (index - 2), covered[:, index], 0.15, color=colour, label=name)
    axes.axhline(0.95, color="black", linewidth=1, linestyle="--")
    axes.set(xticks=range(len(TARGETS)), xticklabels=[f"{name} target" for name in TARGETS], ylim=(0.5, 1.02))
    axes.set(ylabel="share of logs", title=f"95 % intervals that contain the true value, {ROWS:,} rows, {LOGS:,} logs")
    figure.legend(ncols=5, loc="outside lower center", fontsize=8)
    figure.savefig(FOLDER / "coverage.png", dpi=150)


def _draw_looks(outcomes: list[Coverage]) -> None:
    looks = np.arange(STEP, ROWS + 1, STEP)
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    good = TARGETS.index("good")
    for index, name in enumerate(("normal, dr", "anytime")):
        low, high = outcomes[0].paths[good, index].T
        left.fill_between(looks, low, high, color=COLOURS[name], alpha=0.45, label=name)
        for target, style in (("good", "-"), ("uniform", ":")):
            at = TARGETS.index(target)
            missed = np.array(
                [
                    (outcome.paths[at, index, :, 0] > outcome.truths[at])
                    | (outcome.paths[at, index, :, 1] < outcome.truths[at])
                    for outcome in outcomes
                ]
            )
            ever = np.maximum.accumulate(missed, axis=1).mean(axis=0)
            print(f"{name}, {target}: excluded the true value at some look in {ever[-1]:.1%} of logs")
            right.plot(looks, ever, style, color=COLOURS[name], label=f"{name}, {target} target")
    left.axhline(outcomes[0].truths[good], color="black", linewidth=1)
    left.set(xlabel="rows", ylabel="value", ylim=(0.3, 1.0), title="One log: interval of the good target at each look")
    right.axhline(0.05, color="black", linewidth=1, linestyle="--")
    right.set(xlabel="rows", ylabel="share of logs", ylim=(0, None), title="Logs whose interval was wrong at some look")
    left.legend()
    right.legend(fontsize=8)
    figure.savefig(FOLDER / "looks.png", dpi=150)
