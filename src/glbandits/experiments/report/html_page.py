"""A page as a file: one template for all, with Plotly's script inside, so that it needs no network."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from glbandits.experiments.report.html_elements import paragraph
from glbandits.experiments.report.plotly_helpers import plotly_script

AGAIN = "How to make this page again"


def write_page(path: Path, title: str, parts: Sequence[str]) -> Path:
    """Write a page of these pieces of HTML, all of it or nothing."""
    template = files(__package__).joinpath("template.html").read_text(encoding="utf-8")
    page = Template(template).substitute(title=escape(title), script=plotly_script(), body="\n".join(parts))
    half_written = path.with_suffix(".part")
    half_written.write_bytes(page.encode())
    half_written.replace(path)
    return path


def again(command: str, about: str) -> str:
    """The last section of a page: the command that makes it."""
    return (
        f'<section id="again"><h2>{AGAIN}</h2>\n{paragraph(about)}\n<pre><code>{escape(command)}</code></pre></section>'
    )
