"""The examples of docs/tutorials run as doctests; this checks the parts that are not Python."""

import re
from pathlib import Path

from glbandits.lab.experiments.user_experiment import read_experiments

DOCS = Path(__file__).parent.parent / "docs"
TUTORIALS = DOCS / "tutorials"


def test_experiment_file_of_the_tutorial_is_valid(tmp_path: Path) -> None:
    page = (TUTORIALS / "reproducing-the-paper.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    [experiment] = read_experiments([path])
    assert [entry.label for entry in experiment.policies] == ["optimist", "sgd-ts"]


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
