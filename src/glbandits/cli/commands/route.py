"""`glb route audit`: audit the log of a router for language models."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.audit_page import audit_table, notes_of, sentences_of, write_audit
from glbandits.cli.common_options import LevelOption, OutOption, command_line, prepare_out_folder
from glbandits.cli.printed_table import print_table
from glbandits.cli.progress import warnings_printed
from glbandits.common.errors import InvalidInput, check_float
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL
from glbandits.routing.audit import audit
from glbandits.routing.audit_log import read_routes


def audit_command(
    log: Annotated[
        Path,
        typer.Argument(
            help="The folder of PromptRouter(log=FOLDER), or a Parquet file in it; or an export of a loop that routes."
        ),
    ],
    budget: Annotated[
        list[str],
        typer.Option(
            metavar="COSTS", help="Mean costs of a decision: 0.2,0.3. May be repeated. That of the log is added."
        ),
    ] = [],  # noqa: B006
    policy: Annotated[
        list[str],
        typer.Option(
            metavar="POLICY",
            help="In addition to uniform and every arm:NAME: mix:A,B,0.3, which sends a share of 0.3 to model B, and "
            "all others to A. Repeat for more.",
        ),
    ] = [],  # noqa: B006
    level: LevelOption = DEFAULT_LEVEL,
    out: OutOption = Path("out/audit"),
) -> None:
    """Estimate quality and cost of other budgets, single models and mixes from the log of a router.

    A router with another budget learns the first half of the log and is evaluated on the rest. Everything else is
    evaluated on all rows in which its models were offered.
    """
    level = check_float("level", level, above=0.0, at_most=1 - 1e-9)
    budgets = [_parse_budget(text) for texts in budget for text in texts.split(",")]
    prepare_out_folder(out)
    console = Console(emoji=False)
    routes = read_routes(log)
    with console.status("evaluating"), warnings_printed(console):
        found = audit(routes, budgets, policy, level=level)
    print_table(console, audit_table(found))
    for note in notes_of(found):
        _say(console, f"Note: {note}")
    page, record = write_audit(found, out, str(log), command_line())
    _say(console, f"Page: {page}\nResults: {record}")
    _say(console, "\n".join(sentences_of(found)))


def _parse_budget(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"--budget is a list of mean costs such as 0.2,0.3; got {text!r}") from None


def _say(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True, markup=False, highlight=False)
