"""HTML pages that need no network: elements, sections and the page template."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from glbandits.common.atomic_files import write_atomically
from glbandits.common.display.plotly_helpers import plotly_script

REPRODUCE, REPRODUCE_TITLE = "reproduce", "How to reproduce this page"


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading and an anchor."""

    name: str
    """The anchor."""
    title: str
    content: str
    """HTML."""

    def to_html(self) -> str:
        """Return the section with its heading."""
        return f'<section id="{self.name}"><h2>{escape(self.title)}</h2>\n{self.content}</section>'


def write_page(path: Path, title: str, parts: Sequence[str]) -> Path:
    """Write a page that consists of these pieces of HTML, atomically; return its path."""
    template = files(__package__).joinpath("template.html").read_text(encoding="utf-8")
    page = Template(template).substitute(title=escape(title), script=plotly_script(), body="\n".join(parts))
    write_atomically(path, page.encode())
    return path


def table_of_contents(sections: Sequence[Section]) -> str:
    """Return a list of links to the sections."""
    lines = "\n".join(f'<li><a href="#{section.name}">{escape(section.title)}</a></li>' for section in sections)
    return f'<nav aria-label="Contents"><ul>\n{lines}\n</ul></nav>'


def reproduce_section(command: str, about: str) -> Section:
    """Return the last section of a page: the command that writes it."""
    return Section(REPRODUCE, REPRODUCE_TITLE, f"{paragraph(about)}\n<pre><code>{escape(command)}</code></pre>")


def paragraph(text: str, css_class: str = "") -> str:
    """Return plain text as a paragraph."""
    return f'<p class="{css_class}">{escape(text)}</p>' if css_class else f"<p>{escape(text)}</p>"


def caption(text: str, links: str = "") -> str:
    """Return the caption of a figure: plain text, followed by links that are already HTML."""
    return f"<figcaption>{escape(text)} {links}</figcaption>" if links else f"<figcaption>{escape(text)}</figcaption>"


def image(png: Path, alt: str) -> str:
    """Return an embedded image in a box that scrolls if the image is wider than the screen."""
    data = b64encode(png.read_bytes()).decode()
    return f'<div class="scroll" tabindex="0"><img alt="{escape(alt)}" src="data:image/png;base64,{data}"></div>'
