"""Print a table: with lines in a terminal, as plain aligned columns in a pipe or a file."""

from dataclasses import replace

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from glbandits.common.display.data_table import DataTable
from glbandits.common.display.spelling import on_command_line


def print_table(console: Console, table: DataTable) -> None:
    """Print a table. In a terminal, cells are folded so that the table fits."""
    rows = [tuple(map(on_command_line, row)) for row in table.rows]
    table = replace(table, rows=rows, notes=tuple(map(on_command_line, table.notes)))
    if not console.is_terminal:
        console.print(table.to_text(), soft_wrap=True, markup=False, highlight=False, emoji=False)
        return
    boxed = Table(title=escape(table.title) or None, title_justify="left")
    for index, column in enumerate(table.columns):
        boxed.add_column(escape(column), justify="left" if table.aligns_left(index) else "right", overflow="fold")
    for row in table.rows:
        boxed.add_row(*map(escape, row))
    console.print(boxed)
    for note in table.notes:
        console.print(note, markup=False, highlight=False)
