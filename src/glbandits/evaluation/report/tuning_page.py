"""The page and the table of `glb tune`: every setting, the verdict on the best one, and the next command."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from glbandits.common.display.charts import IntervalRow, chart_html, finish, intervals_chart
from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import percent
from glbandits.common.display.html_page import Section, paragraph, write_page
from glbandits.common.display.palette import BLUE, GREY
from glbandits.common.display.text_format import format_interval, format_value
from glbandits.common.version import __version__
from glbandits.evaluation.learning.tune import CandidateResult, TuningResult

PAGE = "tune.html"


def write_tuning_page(
    tuned: TuningResult, settings: Sequence[str], folder: Path, *, source: str, level: float, following: str,
    command: str, notes: Sequence[str] = (),
) -> Path:  # fmt: skip
    """Write the page into a folder; return its path. The page needs no network and no other file.

    Args:
        tuned: the result.
        settings: the names of the tuned settings.
        folder: it exists.
        source: name of the log.
        level: of the intervals.
        following: the next command.
        command: the command that writes the page.
        notes: remarks about the log.
    """
    first, second = tuned.rows
    about = (
        f"This page was written by glbandits {__version__} from {source}. Each setting of {tuned.best.name} played "
        f"part 1 of the log ({first:,} rows) and started untrained. The best one and the default then played part 2 "
        f"({second:,} rows), which was not used for the choice."
    )
    verdict = f"<h2>Verdict</h2>\n<p>{escape(str(tuned.verdict(level)))}</p>\n<p>Next:</p>"
    header = f"{verdict}\n<pre><code>{escape(following)}</code></pre>\n{paragraph(about)}"
    warnings = [paragraph(note, "warning") for note in notes]
    figure = chart_html(_chart(tuned, settings, level), "settings")
    content = "\n".join([figure, *warnings, tuning_table(tuned, settings, level).to_html()])
    return write_page(folder / PAGE, "Tuning", header, [Section("settings", "Settings", content)], command)


def _chart(tuned: TuningResult, settings: Sequence[str], level: float) -> object:
    """Return the mean of each setting with its interval: the choice on part 1, and the comparison on part 2."""
    reach = float(ndtri(0.5 + 0.5 * level))
    parts = {"part 1: choice": tuned.candidates, "part 2: comparison": (tuned.winner, tuned.default)}
    rows = [
        IntervalRow(
            part, label_of(played, settings), played.value,
            played.value - reach * played.standard_error, played.value + reach * played.standard_error,
        )
        for part, candidates in parts.items()
        for played in candidates
    ]  # fmt: skip
    rows = [row for row in rows if np.isfinite(row.value)]
    title = f"mean {tuned.unit} of a decision while learning"
    colours = dict(zip(parts, (GREY, BLUE), strict=True))
    chart = intervals_chart(rows, title, references=[tuned.default.value], colours=colours)
    return finish(chart, f"M{title[1:]}", f"{percent(level)} intervals; dotted: the default in part 2")


def tuning_table(tuned: TuningResult, settings: Sequence[str], level: float) -> DataTable:
    """Return all settings with their means in the first part, and the best and the default in the second."""
    first, second = tuned.rows
    title = f"Mean {tuned.unit} per decision of {tuned.best.name} while learning"
    title += f"; part 1: {first:,} rows, part 2: {second:,}"
    gain, interval = "gain over the default", f"{percent(level)} interval"
    columns = ("part", "setting", f"mean {tuned.unit}", "standard error", "rows that count", gain, interval)
    rows = [
        ["1", label_of(played, settings) + ", default" * (index == 0), *_numbers(played)]
        for index, played in enumerate(tuned.candidates)
    ]
    found = [format_value(tuned.gain, sign=True), format_interval(tuned.gain_interval(level))]
    rows.append(["2", f"{label_of(tuned.winner, settings)}, the best", *_numbers(tuned.winner), *found])
    rows.append(["2", f"{label_of(tuned.default, settings)}, default", *_numbers(tuned.default)])
    return DataTable(columns, rows, columns[:2], title)


def _numbers(played: CandidateResult) -> list[str]:
    kept = f"{min(curve.kept for curve in played.curves):,}"
    return [format_value(played.value), format_value(played.standard_error), kept]


def label_of(played: CandidateResult, names: Sequence[str]) -> str:
    """Return the values that a candidate has for the tuned settings, as a text."""
    settings = played.policy.get_params()
    return ", ".join(f"{name}={settings.get(name)}" for name in names)
