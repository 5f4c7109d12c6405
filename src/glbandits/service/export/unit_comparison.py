"""The comparison of treatment with control from the units of an export: that of `GET /v1/guardrails`."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import polars as pl

from glbandits.common.display.data_table import DataTable
from glbandits.common.display.text_format import NO_VALUE, significant
from glbandits.common.errors import InvalidInput
from glbandits.common.export_manifest import Manifest, read_manifest
from glbandits.evaluation.comparison_result import GroupComparison
from glbandits.evaluation.readers.frames import convert_polars_errors
from glbandits.maths.online_statistics.group_difference import BLOCK
from glbandits.service.domain.events import Group, UnitStart
from glbandits.service.domain.groups.experiment import MetricSettings
from glbandits.service.domain.groups.guardrail_report import MetricReport
from glbandits.service.domain.groups.metric_comparison import MetricComparison
from glbandits.service.domain.groups.unit_outcomes import closes_at, outcome_of

COLUMNS = ("metric", "number", "at", "group", "share", "value", "predicted")
NOTE = "Each bound of an interval is wrong at some look in at most 5 % of loops, however often one looks."


def compare_groups(folder: Path) -> GroupComparison | None:
    """Compare the groups of an export; None if it has no units."""
    manifest = read_manifest(folder)
    if manifest.units is None:
        return None
    with convert_polars_errors():
        table = pl.read_parquet(folder / manifest.units.name, columns=list(COLUMNS))
    if len(table) != manifest.units.rows:
        raise InvalidInput(
            f"the export is damaged: {manifest.units.name} has {len(table):,} rows, and its manifest says "
            f"{manifest.units.rows:,}. Export the log again"
        )
    reports = list(_reports(manifest, table))
    rows, sentences = [], []
    for report in reports:
        counted = table["metric"].eq(report.name).sum()
        interval = f"{_text(report.low)} to {_text(report.high)}"
        groups = (report.treatment, report.control)
        means = [f"{_text(group.mean)} ({group.units:,})" for group in groups]
        rows.append([report.name, *means, _text(report.difference), interval])
        deleted = manifest.metrics[report.name].units - counted
        rest = f" {deleted:,} more units were counted and then deleted from the log." if deleted else ""
        sentences.append(report.sentence + rest)
    columns = ["metric", "treatment (units)", "control (units)", "difference", "90 % interval at every look"]
    return GroupComparison(
        table=DataTable(columns, rows, title="Treatment against control", notes=[NOTE]),
        sentences=tuple(sentences),
        record=tuple(msgspec.to_builtins(report) for report in reports),
    )


def _reports(manifest: Manifest, table: pl.DataFrame) -> Iterator[MetricReport]:
    for name, metric in manifest.metrics.items():
        settings = msgspec.convert(metric.settings, MetricSettings)
        comparison = MetricComparison(settings=settings, after=0)
        for block in table.filter(pl.col("metric") == name).iter_slices(BLOCK):
            units = [
                (
                    UnitStart(first, since),
                    outcome_of(group == Group.TREATMENT, share, value, tuple(predicted), settings),
                )
                for _, first, since, group, share, value, predicted in block.iter_rows()
            ]
            comparison = comparison.with_units(name, units, closes_at(units[-1][0], settings))
        yield comparison.report(name, waiting=0)


def _text(number: float | None) -> str:
    return NO_VALUE if number is None else significant(number)
