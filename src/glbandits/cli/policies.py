"""`glb policies`: what can be played, at what cost, and with which settings."""

import inspect
from dataclasses import fields, replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from glbandits.errors import InvalidInput
from glbandits.maths.links import LINKS, find_link
from glbandits.policies import POLICIES

HEAD = """# Policies

`glb policies --markdown` generates this page from the code, and a test checks that it is up to date.

- **Costs** are orders of growth in K (arms), d (features) and t (distinct arms pulled so far, which stops growing if
  the set of arms is fixed). M and n are settings.
- A **guarantee** is the proven order of regret with the settings of the theory (`exploration=None`), up to logarithms.
  kappa is the smallest slope of the link for ||theta|| <= S, and mu'* is its slope at the best arm.
- **Sparse** is the cost of a Bandit with `sparse=True` to choose, to learn and in memory. Here n is the number of
  nonzero features of an arm and f the number of learned features. A dash means that the policy has no sparse form
  ([sparse-features.md](sparse-features.md)).
- Default explorations were chosen by `python -m benchmarks defaults`, on a problem whose arms change in each round and
  on a problem with fixed arms.
"""
FOOT = """
The grids are those of the SGD-TS paper. Policies that are not in the paper have its five values of the exploration.

**LinUCB-d** (Wu, Yang and Shen, 2020), which the paper mentions once, is not included, because we could not determine
the formula of its index. `lin-ucb-disjoint` is LinUCB with separate parameters for each arm.
"""

COLUMNS = "id", "to choose", "to learn", "memory", "sparse", "links", "guarantee", "use it when"


def policies(
    markdown: Annotated[bool, typer.Option(help="Print docs/policies.md: costs, guarantees, settings, grids.")] = False,
) -> None:
    """List every policy with its settings and their defaults."""
    if markdown:
        typer.echo(as_markdown(), nl=False)
        return
    table = Table(title="Policies", show_lines=True)
    table.add_column("id", no_wrap=True)
    table.add_column("what it does")
    table.add_column("use it when")
    table.add_column("settings (defaults)")
    for name, kind in POLICIES.items():
        table.add_row(name, summary(kind), kind.info.use_when, settings(kind))
    console = Console()
    console.print(table)
    console.print("Set them on the command line like this: --policy sgd-ts:step=0.5,draw=decision")


def as_markdown() -> str:
    """The page docs/policies.md."""
    lines = [HEAD, *row(*COLUMNS, head=True)]
    for name, kind in POLICIES.items():
        info = kind.info
        page = f"[`{name}`](theory/{info.page or name}.md)"
        costs = info.choose, info.learn, info.memory, info.sparse or "-"
        lines += row(page, *costs, links(kind), info.guarantee, info.use_when)
    lines += ["", "## Settings and grids", "", *row("id", "what it does", "settings (defaults)", "grid", head=True)]
    for name, kind in POLICIES.items():
        lines += row(f"`{name}`", summary(kind), settings(kind), grid(kind))
    return "\n".join([*lines, FOOT])


def row(*cells: str, head: bool = False) -> list[str]:
    """A row of a table in Markdown, with a rule below if it is the head."""
    written = "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    return [written, "|---" * len(cells) + "|"] if head else [written]


def summary(kind: Any) -> str:
    """The first sentence of a policy's docstring."""
    return (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")


def settings(kind: Any) -> str:
    """Its settings and their defaults."""
    return ", ".join(f"{field.name}={field.default}" for field in fields(kind))


def grid(kind: Any) -> str:
    """Its grid, or a dash."""
    listed = [f"{setting}: {', '.join(f'{value:g}' for value in values)}" for setting, values in kind.grid.items()]
    return "; ".join(listed) or "-"


def links(kind: Any) -> str:
    """The built-in links that it takes: found by trying them."""
    if "link" not in {field.name for field in fields(kind)}:
        return find_link(kind().link).name
    allowed = [name for name in LINKS if _takes(kind(), name)]
    return "any" if len(allowed) == len(LINKS) else ", ".join(allowed)


def _takes(policy: Any, link: str) -> bool:
    try:
        replace(policy, link=link)
    except InvalidInput:
        return False
    return True
