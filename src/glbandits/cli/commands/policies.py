"""`glb policies`: list the policies with their settings."""

from textwrap import fill
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from glbandits.cli.policies_page import default_settings, policies_markdown, policy_summary
from glbandits.policies import POLICIES

HINT = "Give settings on the command line like this: --policy sgd-ts:step=0.5,draw=decision"


def policies_command(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print docs/policies.md: costs, guarantees, settings and grids.")
    ] = False,
) -> None:
    """List all policies with their settings and defaults."""
    console = Console(highlight=False)
    if markdown:
        typer.echo(policies_markdown(), nl=False)
    elif console.is_terminal:
        console.print(_table())
        console.print(HINT)
    else:
        typer.echo(_plain_text())


def _table() -> Table:
    table = Table(title="Policies", show_lines=True)
    table.add_column("id", no_wrap=True)
    for column in ("what it does", "use it when", "settings (defaults)"):
        table.add_column(column, overflow="fold")
    for name, kind in POLICIES.items():
        table.add_row(name, policy_summary(kind), kind.info.use_when, "\n".join(default_settings(kind)))
    return table


def _plain_text() -> str:
    """Return the list for a pipe or a file: a paragraph for each policy, and each setting on a line."""
    paragraphs = []
    for name, kind in POLICIES.items():
        texts = [policy_summary(kind), f"Use it when: {kind.info.use_when}"]
        lines = [name, *(fill(text, 100, initial_indent="  ", subsequent_indent="  ") for text in texts)]
        paragraphs.append("\n".join([*lines, *(f"    {setting}" for setting in default_settings(kind))]))
    return "\n\n".join([*paragraphs, HINT])
