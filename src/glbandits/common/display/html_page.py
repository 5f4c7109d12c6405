"""HTML pages that need no network: elements, sections and the page template."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from glbandits.common.atomic_files import write_atomically
from glbandits.common.display.charts import chart_script


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading and an anchor."""

    name: str
    """The anchor."""
    title: str
    content: str
    """HTML."""


def write_page(
    path: Path, title: str, header: str, sections: Sequence[Section], command: str, *, reload_seconds: int = 0
) -> Path:
    """Write a page atomically; return its path.

    Args:
        path: of the file.
        title: of the page.
        header: HTML below the title.
        sections: the parts, which the page lists below the header.
        command: the command line that writes the page.
        reload_seconds: after this time the browser loads the page again; 0 for never.
    """
    code = f"<p>This command writes the page again.</p>\n<pre><code>{escape(command)}</code></pre>"
    sections = [*sections, Section("reproduce", "How to reproduce this page", code)]
    links = "\n".join(f'<li><a href="#{section.name}">{escape(section.title)}</a></li>' for section in sections)
    body = "\n".join(
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2>\n{section.content}</section>'
        for section in sections
    )
    reload = f'<meta http-equiv="refresh" content="{reload_seconds}">' if reload_seconds else ""
    page = Template(files(__package__).joinpath("template.html").read_text(encoding="utf-8")).substitute(
        title=escape(title), reload=reload, script=chart_script(), header=header, links=links, body=body
    )
    write_atomically(path, page.encode())
    return path


def paragraph(text: str, css_class: str = "") -> str:
    """Return plain text as a paragraph."""
    return f'<p class="{css_class}">{escape(text)}</p>' if css_class else f"<p>{escape(text)}</p>"
