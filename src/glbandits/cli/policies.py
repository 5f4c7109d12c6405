"""`glb policies`: what can be played, and with which settings."""

import inspect
from dataclasses import fields
from typing import Any

from rich.console import Console
from rich.table import Table

from glbandits.policies import POLICIES


def policies() -> None:
    """List every policy with its settings and their defaults."""
    table = Table(title="Policies", show_lines=True)
    table.add_column("id", no_wrap=True)
    table.add_column("what it does")
    table.add_column("settings (defaults)")
    for name, policy in POLICIES.items():
        what = (inspect.getdoc(policy) or "").split("\n\n")[0].replace("\n", " ")
        kind: Any = policy
        table.add_row(name, what, ", ".join(f"{field.name}={field.default}" for field in fields(kind)))
    console = Console()
    console.print(table)
    console.print("Set them on the command line like this: --policy sgd-ts:step=0.5,draw=decision")
