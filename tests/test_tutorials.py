"""The examples of docs/tutorials run as doctests; this checks the parts that are not Python."""

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
TUTORIALS = DOCS / "tutorials"


def listed_pages() -> list[Path]:
    """Return the tutorials of the navigation."""
    start = (DOCS / "index.md").read_text(encoding="utf-8")
    (navigation,) = re.findall(r":caption: Tutorials\n:hidden:\n(.*?)```", start, re.DOTALL)
    return [DOCS / f"{name}.md" for name in navigation.split()]


def test_navigation_lists_every_tutorial() -> None:
    assert set(TUTORIALS.glob("*.md")) <= set(listed_pages())


def test_every_tutorial_has_a_picture_that_exists() -> None:
    for page in listed_pages():
        assert re.search(r"!\[[^]]+\]\(", page.read_text(encoding="utf-8")), f"{page.name} has no picture"
        for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / picture).is_file(), f"{page.name} shows {picture}"
