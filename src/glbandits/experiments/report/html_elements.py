"""Small pieces of HTML. Whatever comes from outside is escaped here."""

import math
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

NONE = "-"
"""What a cell without a number shows."""


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text, of a kind that the page's style knows."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def caption(text: str, links: str = "") -> str:
    """The caption of a figure: plain text, and links that are HTML already."""
    return f"<figcaption>{escape(text)} {links}</figcaption>" if links else f"<figcaption>{escape(text)}</figcaption>"


def image(png: Path, alt: str) -> str:
    """A picture inside the page, in a box that scrolls if it is wider than the screen."""
    data = b64encode(png.read_bytes()).decode()
    return f'<div class="scroll" tabindex="0"><img alt="{escape(alt)}" src="data:image/png;base64,{data}"></div>'


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, words: Sequence[str] = ()) -> str:
    """A table in a box of its own, which scrolls if it is wider than the screen.

    Columns named in `words` hold words and align left; the first always does, and numbers align right.
    """
    left = [i == 0 or column in words for i, column in enumerate(columns)]
    head = "".join(
        f'<th scope="col"{_kind(is_left)}>{escape(c)}</th>' for c, is_left in zip(columns, left, strict=True)
    )
    body = []
    for first, *rest in rows:
        cells = "".join(f"<td{_kind(is_left)}>{escape(c)}</td>" for c, is_left in zip(rest, left[1:], strict=True))
        body.append(f'<tr><th scope="row" class="w">{escape(first)}</th>{cells}</tr>')
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>\n' + (
        "\n".join(body) + "\n</tbody></table></div>"
    )


def _kind(is_left: bool) -> str:
    return ' class="w"' if is_left else ""


def significant(value: float | None) -> str:
    """Three digits, never with an exponent.

    >>> [significant(number) for number in (0.000012345, 2.0, 1234.5)]
    ['0.0000123', '2.00', '1234']
    """
    if value is None or not math.isfinite(value):
        return NONE
    before = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:.{max(0, 2 - before)}f}"


def with_width(mean: float, width: float | None, decimals: int, *, sign: bool = False) -> str:
    """A mean and half of its interval, if it has one.

    >>> with_width(12.345, 0.678, 1), with_width(2.0, float("nan"), 1, sign=True)
    ('12.3 ± 0.7', '+2.0')
    """
    shown = f"{mean:{'+' if sign else ''}.{decimals}f}"
    return f"{shown} ± {width:.{decimals}f}" if width is not None and math.isfinite(width) else shown


def listed(words: Sequence[str]) -> str:
    """Words in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def seeds_in_words(seeds: Sequence[int]) -> str:
    """Seeds as a range, where they are one.

    >>> seeds_in_words([1, 2, 3]), seeds_in_words([4, 9])
    ('1 to 3', '4 and 9')
    """
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return listed([str(seed) for seed in seeds])
