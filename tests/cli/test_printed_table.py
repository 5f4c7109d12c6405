from io import StringIO

from rich.console import Console

from glbandits.cli.printed_table import print_table
from glbandits.common.display.data_table import DataTable

NAME = "epsilon-greedy:[b]" + "x" * 100


def printed(*, terminal: bool) -> str:
    table = DataTable(("policy", "mean"), [(NAME, "1.25"), ("uniform", "12.50")], title="Regret", notes=("A note.",))
    file = StringIO()
    print_table(Console(file=file, width=60, force_terminal=terminal, color_system=None), table)
    return file.getvalue()


def test_table_in_a_pipe_has_one_line_for_each_row() -> None:
    lines = ["Regret", f"{'policy':<118}   mean", f"{NAME}   1.25", f"{'uniform':<118}  12.50", "A note."]
    assert printed(terminal=False).splitlines() == lines
