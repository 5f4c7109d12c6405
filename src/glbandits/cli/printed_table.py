"""Print a table: with lines in a terminal, as plain aligned columns in a pipe or a file."""

from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 100_000
"""Columns of a console that wraps no table."""


def print_table(console: Console, table: Table) -> None:
    """Print a table. If the console is no terminal, each row is one line without box characters."""
    if console.is_terminal:
        console.print(table)
        return
    table.box, table.pad_edge, table.padding = None, False, (0, 2, 0, 0)
    table.title_justify = table.caption_justify = "left"
    plain = Console(width=PIPE_WIDTH, color_system=None, highlight=False, emoji=False, legacy_windows=False)
    with plain.capture() as captured:
        plain.print(table)
    for line in captured.get().splitlines():
        console.print(line.rstrip(), soft_wrap=True, markup=False, highlight=False, emoji=False)
