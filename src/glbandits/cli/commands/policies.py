"""`glb policies`: list the policies with their settings."""

from textwrap import fill
from typing import Annotated

import typer

from glbandits.cli.policies_page import default_settings, policies_markdown, policy_summary
from glbandits.policies import POLICIES

HINT = "Give settings on the command line like this: --policy sgd-ts:step=0.5,draw=decision"


def policies_command(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print docs/policies.md: costs, guarantees, settings and grids.")
    ] = False,
) -> None:
    """List all policies with their settings and defaults."""
    if markdown:
        typer.echo(policies_markdown(), nl=False)
        return
    for name, kind in POLICIES.items():
        typer.echo(name)
        for text in (policy_summary(kind), f"Use it when: {kind.info.use_when}"):
            typer.echo(fill(text, 100, initial_indent="  ", subsequent_indent="  "))
        for setting in default_settings(kind):
            typer.echo(f"    {setting}")
        typer.echo()
    typer.echo(HINT)
