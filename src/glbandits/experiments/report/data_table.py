"""A table as data, for HTML pages and for Markdown pages."""

from collections.abc import Sequence
from dataclasses import dataclass

from glbandits.experiments.report.html_elements import table as html_table


@dataclass(frozen=True)
class DataTable:
    """Column titles and rows of text. The first column and `text_columns` align left, numbers align right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: Sequence[str] = ()

    def to_html(self) -> str:
        """The table in a box that scrolls if it is wider than the screen."""
        return html_table(self.columns, self.rows, words=self.text_columns)

    def to_markdown(self) -> str:
        r"""The table as Markdown.

        >>> print(DataTable(["a", "b"], [["x|y", "1"]]).to_markdown())
        | a | b |
        |---|---:|
        | x\|y | 1 |
        """
        rule = "".join(
            "---|" if index == 0 or column in self.text_columns else "---:|"
            for index, column in enumerate(self.columns)
        )
        lines = [self._line(self.columns), "|" + rule, *map(self._line, self.rows)]
        return "\n".join(lines)

    @staticmethod
    def _line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
