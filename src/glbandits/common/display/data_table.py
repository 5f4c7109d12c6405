"""A table as data, rendered as HTML or as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class DataTable:
    """Column titles and rows of text.

    The first column and `text_columns` align left, numbers align right.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: Sequence[str] = ()

    def to_html(self) -> str:
        """Return the table in a box that scrolls if the table is wider than the screen.

        All cells are escaped.
        """
        left = [self._aligns_left(index) for index in range(len(self.columns))]
        head = "".join(
            f'<th scope="col"{_css_class(is_left)}>{escape(title)}</th>'
            for title, is_left in zip(self.columns, left, strict=True)
        )
        body = []
        for first, *rest in self.rows:
            cells = "".join(
                f"<td{_css_class(is_left)}>{escape(cell)}</td>" for cell, is_left in zip(rest, left[1:], strict=True)
            )
            body.append(f'<tr><th scope="row" class="w">{escape(first)}</th>{cells}</tr>')
        return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>\n' + (
            "\n".join(body) + "\n</tbody></table></div>"
        )

    def to_markdown(self) -> str:
        r"""Return the table as Markdown.

        >>> print(DataTable(["a", "b"], [["x|y", "1"]]).to_markdown())
        | a | b |
        |---|---:|
        | x\|y | 1 |
        """
        rule = "".join("---|" if self._aligns_left(index) else "---:|" for index in range(len(self.columns)))
        lines = [_markdown_row(self.columns), "|" + rule, *map(_markdown_row, self.rows)]
        return "\n".join(lines)

    def _aligns_left(self, index: int) -> bool:
        return index == 0 or self.columns[index] in self.text_columns


def _css_class(is_left: bool) -> str:
    """The class "w" of template.html, for cells of words."""
    return ' class="w"' if is_left else ""


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
