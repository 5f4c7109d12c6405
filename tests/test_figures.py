"""The tool that keeps figures in pages equal to their sources (tools/figures.py)."""

from pathlib import Path

import pytest
from tools import figures
from tools.figures import main, rounded, unsourced, with_figures

SOURCE = """\
table one
wine        12.34 +- 0.5   1,234
forest-2    -0.055  81.3%
## Second
| `wine` | 7.0 | 8 |
"""


@pytest.fixture(autouse=True)
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "numbers.txt").write_text(SOURCE)
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "DOCS", docs)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        ('numbers.txt "wine" 1 2', "about 9.9 ± 9.9 each", "about 12.3 ± 0.5 each"),
        ('numbers.txt "wine" 3', "9", "1,234"),
        ('numbers.txt "forest-2" 1', "9.99", "-0.06"),
        ('numbers.txt "forest-2" 2', "9 %", "81 %"),
        ('numbers.txt "Second" "wine" 2', "9", "8"),
    ],
)
def test_figures_are_written_from_their_source(source: str, old: str, new: str) -> None:
    page = f"It is <!-- figure: {source} -->{old}<!-- end -->."
    assert with_figures(page) == f"It is <!-- figure: {source} -->{new}<!-- end -->."


@pytest.mark.parametrize(
    "source",
    ['missing.txt "wine" 1', 'numbers.txt "beer" 1', 'numbers.txt "wine" 4', 'numbers.txt "wine" 1 2',
     'numbers.txt "Second" "forest-2" 1', 'numbers.txt "wine"'],
)  # fmt: skip
def test_source_without_the_figure_is_an_error(source: str) -> None:
    with pytest.raises(ValueError, match="figure|source"):
        with_figures(f"It is <!-- figure: {source} -->12.3<!-- end -->.")


@pytest.mark.parametrize(
    "text",
    [
        "The mean is 41.3 ± 1.9.",
        "The ratio is 1.07 [1.05, 1.11].",
        "It has 1.4 times the regret.",
        "A decision costs 55 us.",
        "The import took 28 seconds.",
        "The interval covered 97 % of them.",
        "The CPU time is 0.11 s.",
        "| | p50 |\n|---|---|\n| reward | 7.3 ms |",
        "It was wrong in 1.2 % of all loops.",
    ],
)
def test_figures_without_source_are_reported(text: str) -> None:
    assert [line for line, _ in unsourced(f"A page.\n\n{text}\n")] == [3 + text.count("\n")]


@pytest.mark.parametrize(
    "text",
    [
        "A timeout of 5 s. The request is then refused.",
        "95 % intervals cover the mean.",
        "The regret is `41.3`, $O(1.5 t)$.",
        "```text\nregret 41.3 ± 1.9\n```",
        'The regret is <!-- figure: numbers.txt "wine" 1 -->12.3<!-- end -->.',
        "Memory is limited to <!-- given -->400 MB<!-- end -->.",
        "Regret is defined in [arXiv 2407.13195](https://arxiv.org/abs/2407.13195).",
        "| version | regret |\n|---|---|\n| [a](b.md#1.2) | least |",
    ],
)
def test_given_numbers_are_not_reported(text: str) -> None:
    assert list(unsourced(text)) == []


def test_check_fails_until_the_page_is_written(clone: Path) -> None:
    page = clone / "README.md"
    page.write_text('Regret: <!-- figure: numbers.txt "wine" 1 -->11.1<!-- end -->\n')
    with pytest.raises(SystemExit, match=r"README\.md:1:"):
        main(["--check"])
    main([])
    main(["--check"])
    assert "12.3" in page.read_text()


def test_generated_pages_and_decision_records_are_not_checked(clone: Path) -> None:
    (clone / "README.md").write_text("Hello.\n")
    (clone / "docs" / "results.md").write_text("<!-- Written by `make results`. -->\nRegret 1.0 ± 0.1.\n")
    (clone / "docs" / "decisions").mkdir()
    (clone / "docs" / "decisions" / "0001-one.md").write_text("Regret was 1.0 ± 0.1.\n")
    main(["--check"])


def test_rounding_keeps_places_and_commas() -> None:
    assert rounded("1,234.56", like="1,000.0") == "1,234.6"
    assert rounded("0.963", like="0.9") == "1.0"
