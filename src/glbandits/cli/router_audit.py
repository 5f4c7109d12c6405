"""`glb evaluate` on the log of a router for language models: an audit of quality and cost."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from glbandits.cli.audit_page import audit_table, notes_of, sentences_of, write_audit
from glbandits.cli.common_options import command_line, prepare_out_folder
from glbandits.cli.printed_table import print_table
from glbandits.cli.progress import warnings_printed
from glbandits.common.errors import InvalidInput, check_float
from glbandits.routing.audit import audit
from glbandits.routing.audit_log import read_routes


def print_audit(
    log: str, budget: Sequence[str], policy: Sequence[str], *, level: float, out: Path, console: Console
) -> None:
    """Estimate quality and cost of other budgets, single models and mixes: a table, a page and a JSON file.

    A router with another budget learns the first half of the log and is evaluated on the rest. Everything else is
    evaluated on all rows in which its models were offered.
    """
    level = check_float("level", level, above=0.0, at_most=1 - 1e-9)
    budgets = [_parse_budget(text) for texts in budget for text in texts.split(",")]
    prepare_out_folder(out)
    routes = read_routes(log)
    with console.status("evaluating"), warnings_printed(console):
        found = audit(routes, budgets, policy, level=level)
    print_table(console, audit_table(found))
    for note in notes_of(found):
        _say(console, f"Note: {note}")
    page, record = write_audit(found, out, log, command_line())
    _say(console, f"Page: {page}\nResults: {record}")
    _say(console, "\n".join(sentences_of(found)))


def _parse_budget(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"--budget is a list of mean costs such as 0.2,0.3; got {text!r}") from None


def _say(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True, markup=False, highlight=False)
