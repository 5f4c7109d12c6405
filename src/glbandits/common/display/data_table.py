"""A table as data, rendered as text, as HTML or as Markdown."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class DataTable:
    """Column titles and rows of text. Short rows are filled with empty cells.

    The first column and `text_columns` align left, numbers align right.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: Sequence[str] = ()
    title: str = ""
    notes: Sequence[str] = ()
    """Sentences below the table."""

    def to_text(self) -> str:
        """Return the table as aligned text, one line for each row.

        >>> print(DataTable(["policy", "value"], [["uniform", "0.5"], ["greedy", "12"]], title="Regret").to_text())
        Regret
        policy   value
        uniform    0.5
        greedy      12
        """
        lines = [self.columns, *self._full_rows()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        body = [
            "  ".join(
                f"{cell:{'<' if self.aligns_left(index) else '>'}{widths[index]}}" for index, cell in enumerate(line)
            ).rstrip()
            for line in lines
        ]
        total = sum(widths) + 2 * (len(widths) - 1)
        notes = [textwrap.fill(note, total, break_long_words=False, break_on_hyphens=False) for note in self.notes]
        return "\n".join([*([self.title] if self.title else []), *body, *notes])

    def to_html(self) -> str:
        """Return the table in a box that scrolls if the table is wider than the screen.

        All texts are escaped.

        >>> DataTable(("policy", "value"), [("<script>", "1")], notes=("a < b",)).to_html().count("&lt;")
        2
        """
        classes = [' class="w"' if self.aligns_left(index) else "" for index in range(len(self.columns))]
        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        head = "".join(
            f'<th scope="col"{css}>{escape(title)}</th>' for title, css in zip(self.columns, classes, strict=True)
        )
        body = []
        for first, *rest in self._full_rows():
            cells = "".join(f"<td{css}>{escape(cell)}</td>" for cell, css in zip(rest, classes[1:], strict=True))
            body.append(f'<tr><th scope="row" class="w">{escape(first)}</th>{cells}</tr>')
        rows = "\n".join(body)
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>"
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f'<div class="scroll" tabindex="0">{table}</div>{notes}'

    def to_markdown(self) -> str:
        r"""Return the table as Markdown.

        >>> print(DataTable(["a", "b"], [["x|y", "1"]]).to_markdown())
        | a | b |
        |---|---:|
        | x\|y | 1 |
        """
        rule = "".join("---|" if self.aligns_left(index) else "---:|" for index in range(len(self.columns)))
        table = "\n".join([_markdown_row(self.columns), "|" + rule, *map(_markdown_row, self._full_rows())])
        return "\n\n".join([*([self.title] if self.title else []), table, *self.notes])

    def aligns_left(self, index: int) -> bool:
        """Return whether a column has words."""
        return index == 0 or self.columns[index] in self.text_columns

    def _full_rows(self) -> list[list[str]]:
        return [[*row, *[""] * (len(self.columns) - len(row))] for row in self.rows]


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
