"""`glb describe`: a first look at a log, with tables and a page."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.common_options import command_line, prepare_out_folder
from glbandits.cli.log_options import LogArguments, split_names, with_log_options
from glbandits.cli.printed_table import print_table
from glbandits.cli.progress import work_bar
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.description import ColumnSummary, LogDescription
from glbandits.evaluation.logs.log_statistics import describe_blocks
from glbandits.evaluation.readers.csv_files import declared_texts
from glbandits.evaluation.readers.describe_table import describe_columns, describe_table
from glbandits.evaluation.readers.frames import convert_polars_errors, read_arm_table
from glbandits.evaluation.readers.open_log import scan_log
from glbandits.evaluation.readers.service_export import ServiceExport
from glbandits.evaluation.report.description_page import write_description
from glbandits.features.kinds.kind_inference import SKIP
from glbandits.service.export.log_source import is_store


@with_log_options
def describe_command(
    *,
    options: LogArguments,
    out: Annotated[Path, typer.Option(help="Folder for the page.")] = Path("out/describe"),
) -> None:
    """Show what a log contains, what cannot be evaluated and why, and the next command.

    It also accepts a log that `glb evaluate` refuses, such as one without propensities. Without --context, all
    columns that have no other role are described as possible context. Leave out of the next command those that are
    known only after the decision.
    """
    console = Console(emoji=False)
    prepare_out_folder(out)
    with convert_polars_errors():
        description = _describe(options, console)
    needed = description.options
    if description.arms:
        columns = {column.name: column for column in description.columns}
        kept = [name for name in split_names(options.context) if not columns or _can_be_context(columns.get(name))]
        advised = [group[1].rpartition("=")[0] for group in needed if group[0] == "--kind"]
        context = kept or split_names(group[1] for group in needed if group[0] == "--context")
        kinds = [text for text in options.kind if (name := text.rpartition("=")[0]) in context and name not in advised]
        quoted = [f'"{name}"' if "," in name else name for name in kept]
        own = replace(options, context=[",".join(quoted)] if kept else [], kind=kinds).given()
        given = {group[0] for group in own}
        groups = [*own, *(group for group in needed if group[0] not in given - {"--kind"})]
        unusable = [name for name, column in columns.items() if not column.usable and column.kind != SKIP]
        left_out = ", ".join(repr(name) for name in unusable if name not in context)
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


def _describe(options: LogArguments, console: Console) -> LogDescription:
    columns = options.columns()
    settings = options.reader_settings()
    table, problems = None, list[str]()
    if not is_store(options.log, options.file_format):
        with console.status("reading the log"):
            table = scan_log(
                options.log,
                columns,
                format=options.file_format,
                separator=options.field_separator,
                texts=declared_texts(settings),
            )
    with work_bar(console) as bar:
        if table is not None:
            names = table.collect_schema().names()
            columns = columns.without_absent_defaults(names)
        if table is None or options.estimate_propensities or columns.probabilities or columns.arms:
            # the probabilities of all arms are those of a log that can be read
            try:
                log, notes = options.open(console)
                found = None if table is None else describe_columns(table, columns, len(log), settings.get("kinds", {}))
                described = describe_blocks(
                    log,
                    options.log,
                    columns=found,
                    notes=notes,
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
        offered = () if arm_table is None else read_arm_table(arm_table, options.field_separator).to_series().to_list()
        return describe_table(
            table,
            columns,
            options.log,
            kinds=settings.get("kinds"),
            offered=tuple(map(str, offered)),
            problems=problems,
            progress=lambda done, total: bar("reading", done, total),
        )


def _can_be_context(column: ColumnSummary | None) -> bool:
    return column is not None and bool(column.kind or column.declared)
