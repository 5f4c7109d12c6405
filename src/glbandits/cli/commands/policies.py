"""`glb policies`: list the policies with their settings."""

import inspect
from dataclasses import fields
from textwrap import fill
from typing import Any

import typer

from glbandits.policies import POLICIES

HINT = "Give settings on the command line like this: --policy sgd-ts:step=0.5,draw=decision"


def policies_command() -> None:
    """List all policies with their settings and defaults."""
    for name, kind in POLICIES.items():
        typer.echo(name)
        summary = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
        for text in (summary, f"Use it when: {kind.info.use_when}"):
            typer.echo(fill(text, 100, initial_indent="  ", subsequent_indent="  "))
        for setting in default_settings(kind):
            typer.echo(f"    {setting}")
        typer.echo()
    typer.echo(HINT)


def default_settings(kind: Any) -> list[str]:
    """Return the settings of a policy with their defaults, as `name=value`."""
    return [f"{field.name}={field.default}" for field in fields(kind)]
