"""`glb describe`: a first look at a log, with tables and a page."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from glbandits.cli.common_options import LoopOption, OutOption, command_line, prepare_out_folder
from glbandits.cli.log_options import (
    ESTIMATE,
    LINK_ADVICE,
    ArmOption,
    ArmsOption,
    ArmTableOption,
    ContextOption,
    FeaturesOption,
    IdOption,
    KindOption,
    LogArgument,
    LogOptions,
    PropensityOption,
    RewardOption,
    TimeOption,
    split_names,
)
from glbandits.cli.printed_table import print_table
from glbandits.cli.progress import work_bar
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.description import ColumnSummary, LogDescription
from glbandits.evaluation.logs.doubts import Doubt
from glbandits.evaluation.logs.log_statistics import describe_blocks, doubts_of
from glbandits.evaluation.readers.columns import EACH_ARM, Columns
from glbandits.evaluation.readers.csv_files import declared_texts
from glbandits.evaluation.readers.describe_table import describe_columns, describe_table
from glbandits.evaluation.readers.frames import convert_polars_errors, read_arm_table
from glbandits.evaluation.readers.open_log import scan_log
from glbandits.evaluation.readers.service_export import ServiceExport
from glbandits.evaluation.readers.table_log import open_table
from glbandits.evaluation.report.description_page import write_description
from glbandits.features.kinds.kind_inference import SKIP
from glbandits.service.export.log_source import is_store

DEFAULTS = LogOptions(log="")


def describe_command(
    log: LogArgument,
    *,
    loop: LoopOption = DEFAULTS.loop,
    arm: ArmOption = DEFAULTS.arm,
    reward: RewardOption = DEFAULTS.reward,
    propensity: PropensityOption = None,
    context: ContextOption = [],  # noqa: B006
    arms: ArmsOption = None,
    features: FeaturesOption = None,
    time: TimeOption = None,
    id: IdOption = None,  # noqa: A002  (the name of the option)
    arm_table: ArmTableOption = None,
    kind: KindOption = [],  # noqa: B006
    out: OutOption = Path("out/describe"),
) -> None:
    """Show what a log contains, what cannot be evaluated and why, and the next command.

    It also accepts a log that `glb evaluate` refuses, such as one without propensities. Without --context, all
    columns that have no other role are described as possible context. Leave out of the next command those that are
    known only after the decision.
    """
    options = LogOptions(
        log=log,
        loop=loop,
        arm=arm,
        reward=reward,
        propensity=propensity,
        context=context,
        arms=arms,
        features=features,
        time=time,
        id=id,
        arm_table=arm_table,
        kind=kind,
    )
    console = Console(emoji=False)
    prepare_out_folder(out)
    with convert_polars_errors():
        description = _describe(options, console)
    needed = description.options
    if description.arms:
        columns = {column.name: column for column in description.columns}
        kept = [name for name in split_names(options.context) if _can_be_context(name, columns)]
        advised = [group[1].rpartition("=")[0] for group in needed if group[0] == "--kind"]
        named = kept or split_names(group[1] for group in needed if group[0] == "--context")
        kinds = [text for text in options.kind if (name := text.rpartition("=")[0]) in named and name not in advised]
        quoted = [f'"{name}"' if "," in name else name for name in kept]
        own = replace(options, context=[",".join(quoted)] if kept else [], kind=kinds).given()
        given = {group[0] for group in own}
        groups = [*own, *(group for group in needed if group[0] not in given - {"--kind"})]
        unusable = [name for name, column in columns.items() if not column.usable and column.kind != SKIP]
        left_out = ", ".join(repr(name) for name in unusable if name not in named)
        if left_out:
            note = f"the next command leaves out these columns: {left_out}"
            description = replace(description, notes=(*description.notes, note))
    else:  # the names of columns are wrong
        wrong = {group[0] for group in needed}
        groups = [*needed, *(group for group in options.given() if group[0] not in wrong)]
    description = replace(description, options=tuple(groups))
    for table in description.tables():
        print_table(console, table)
    for sentence in description.sentences():
        console.print(sentence, soft_wrap=True, markup=False, highlight=False)
    page = write_description(description, out, command_line())
    console.print(f"Page: {page}", soft_wrap=True, markup=False)


def _describe(options: LogOptions, console: Console) -> LogDescription:
    columns = options.columns()
    settings = options.reader_settings()
    table, problems = None, list[str]()
    if not is_store(options.log):
        with console.status("reading the log"):
            table = scan_log(options.log, columns, texts=declared_texts(settings))
    with work_bar(console) as bar:
        if table is not None:
            names = table.collect_schema().names()
            columns = columns.without_absent_defaults(names)
        if table is None or options.propensity == ESTIMATE or columns.probabilities or columns.arms:
            # the probabilities of all arms are those of a log that can be read
            try:
                log, notes = options.open(console)
                found = None if table is None else describe_columns(table, columns, len(log), settings.get("kinds", {}))
                described = describe_blocks(
                    log,
                    options.log,
                    columns=found,
                    notes=[note.removesuffix(LINK_ADVICE) for note in notes],
                    suggest_context=found is not None and not columns.context,
                    progress=lambda done, total: bar("reading", done, total),
                )
                # an export has the link of its loop
                return replace(described, options=()) if isinstance(log, ServiceExport) else described
            except InvalidInput as error:
                if table is None:
                    raise
                problems.append(str(error))
        arm_table = options.arm_table
        offered = () if arm_table is None else read_arm_table(arm_table).to_series().to_list()
        described = describe_table(
            table,
            columns,
            options.log,
            kinds=settings.get("kinds"),
            offered=tuple(map(str, offered)),
            problems=problems,
            progress=lambda done, total: bar("reading", done, total),
        )
        if described.is_refused or not described.arms:
            return described
        return replace(described, doubts=_doubts(table, columns, described, settings))


def _doubts(
    table: pl.LazyFrame, columns: Columns, described: LogDescription, settings: Mapping[str, Any]
) -> tuple[Doubt, ...]:
    """The doubts about a table, if it can be opened with its columns as context."""
    context = columns.context or tuple(column.name for column in described.columns if column.usable)
    kinds = {column.name: column.declared for column in described.columns if column.usable and column.declared}
    kinds |= settings.get("kinds") or {}
    columns = replace(columns, context=context).without_absent_defaults(table.collect_schema().names())
    if described.overlap is None:
        columns = replace(columns, propensity=None, probabilities=None)
    try:
        return doubts_of(open_table(table, columns, kinds={name: kinds[name] for name in context if name in kinds}))
    except InvalidInput:
        return ()


def _can_be_context(name: str, columns: Mapping[str, ColumnSummary]) -> bool:
    """Whether the next command names this column. Columns of each arm are not described."""
    column = columns.get(name)
    return not columns or EACH_ARM in name or (column is not None and bool(column.kind or column.declared))
