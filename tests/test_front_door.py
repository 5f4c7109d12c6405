"""Readers find answers within two clicks from the first page, and the pages stay few and short."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS, README = ROOT / "docs", ROOT / "README.md"
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s:#]+\.md)(?:#([\w-]+))?\)")
CLICKS = 2
WORDS, PAGES = 50_000, 75
"""The most that README and the pages of the site may have."""
ANSWERS = {
    "where is equation 6": ("paper.md", r"\(equation 6\) \| `[a-z_/]+\.py`: `g1`"),
    "what does a verdict promise": ("evaluate.md", r"(?ms)^#+ What a verdict promises$.*wrong in at most 5 % of logs"),
    "how do I write my own algorithm": ("write-a-policy.md", r"(?m)^## An agent$"),
    "what survives a power failure": ("production.md", r"(?ms)^#+ What survives a failure$.*power failure"),
    "what does it cost per decision": ("benchmarks.md", r"literalinclude\} benchmarks/online\.txt"),
}
"""For each question of a reader the page with the answer, and a pattern of it."""


def front_page() -> str:
    """Return the part of README that docs/index.md includes, with links as on a page of docs."""
    text = README.read_text(encoding="utf-8")
    shown = text.split("<!-- front page -->")[1].split("<!-- end of the front page -->")[0]
    return shown.replace("](docs/", "](")


def linked_pages(page: Path, text: str) -> Iterator[Path]:
    for file, _ in LINK.findall(text):
        yield (page.parent / file).resolve()


def clicks_to_pages() -> dict[Path, int]:
    """Return how many clicks each page is away from the first one, without the navigation."""
    start = DOCS / "index.md"
    assert "{include} ../README.md" in start.read_text(encoding="utf-8")
    clicks = {start: 0}
    queue = [(start, front_page())]
    for page, text in queue:  # grows while it is read
        for target in linked_pages(page, text):
            if target not in clicks and target.is_file():
                clicks[target] = clicks[page] + 1
                queue.append((target, target.read_text(encoding="utf-8")))
    return clicks


@pytest.mark.parametrize("question", ANSWERS)
def test_question_is_answered_in_two_clicks(question: str) -> None:
    name, answer = ANSWERS[question]
    assert clicks_to_pages().get(DOCS / name, CLICKS + 1) <= CLICKS
    assert re.search(answer, (DOCS / name).read_text(encoding="utf-8"))


def test_front_page_has_a_path_for_each_reader() -> None:
    for reader in ("a researcher", "a data scientist", "an engineer"):
        (row,) = re.findall(rf"^\| {reader} \|.*$", front_page(), re.MULTILINE)
        assert len(LINK.findall(row)) >= 3


def pages() -> list[Path]:
    return [page for page in DOCS.rglob("*.md") if page.parent.name != "decisions"]


def words(text: str) -> int:
    """Count the words of a page: what has a letter or a digit, so not the lines of tables."""
    return sum(any(map(str.isalnum, word)) for word in text.split())


def test_pages_are_few_and_short() -> None:
    assert len(pages()) <= PAGES
    assert sum(words(page.read_text(encoding="utf-8")) for page in [README, *pages()]) <= WORDS
