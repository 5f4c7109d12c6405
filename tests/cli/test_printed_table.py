from io import StringIO

from rich.console import Console
from rich.table import Table

from glbandits.cli.printed_table import print_table


def printed(*, terminal: bool) -> str:
    table = Table(title="Regret")
    table.add_column("policy", overflow="fold")
    table.add_column("mean", justify="right")
    table.add_row("epsilon-greedy:" + "x" * 100, "1.25")
    table.add_row("uniform", "12.50")
    file = StringIO()
    print_table(Console(file=file, width=60, force_terminal=terminal, color_system=None), table)
    return file.getvalue()


def test_table_in_a_pipe_has_one_line_for_each_row() -> None:
    name = "epsilon-greedy:" + "x" * 100
    lines = ["Regret", f"{'policy':<115}   mean", f"{name}   1.25", f"{'uniform':<115}  12.50"]
    assert printed(terminal=False).splitlines() == lines


def test_table_in_a_terminal_has_lines_and_its_width() -> None:
    lines = printed(terminal=True).splitlines()
    assert max(map(len, lines)) <= 60
    assert "│" in "".join(lines)
