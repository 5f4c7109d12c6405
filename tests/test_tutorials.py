"""The examples of docs/tutorials run as doctests; this checks the parts that are not Python."""

import re
from pathlib import Path

from glbandits.lab.experiments.user_experiment import read_experiments

TUTORIALS = Path(__file__).parent.parent / "docs" / "tutorials"


def test_experiment_file_of_the_tutorial_is_valid(tmp_path: Path) -> None:
    page = (TUTORIALS / "reproducing-the-paper.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    [experiment] = read_experiments([path])
    assert [entry.label for entry in experiment.policies] == ["optimist", "sgd-ts"]


def listed_pages() -> list[Path]:
    """Return the tutorials that the index lists, in its order."""
    links = re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", (TUTORIALS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    return [(TUTORIALS / link).resolve() for link in links]


def test_index_lists_every_tutorial_in_the_order_of_the_navigation() -> None:
    start = (TUTORIALS.parent / "index.md").read_text(encoding="utf-8")
    (navigation,) = re.findall(r":caption: Tutorials\n:hidden:\n[^\n]*\n(.*?)```", start, re.DOTALL)
    pages = [str(page.relative_to(TUTORIALS.parent).with_suffix("")) for page in listed_pages()]
    assert pages == navigation.split()
    assert set(TUTORIALS.glob("*.md")) - {TUTORIALS / "index.md"} <= set(listed_pages())


def test_every_tutorial_has_a_picture_that_exists() -> None:
    for page in listed_pages():
        assert re.search(r"!\[[^]]+\]\(", page.read_text(encoding="utf-8")), f"{page.name} has no picture"
        for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / picture).is_file(), f"{page.name} shows {picture}"
