"""One palette: the style sheet of the dashboard has the colours of `glbandits.display.palette`."""

import re
from pathlib import Path

import glbandits
from glbandits.display.palette import BAD, COLOURS, COLOURS_ON_DARK, GOOD, GREY, LIGHT_GREY

ROOT = Path(__file__).resolve().parents[2]
STYLE = Path(glbandits.__file__).parent / "serving" / "http" / "dashboard" / "page.css"


def colours_of(pattern: str) -> tuple[str, str]:
    """Return the colours of a rule on a light and on a dark page."""
    (value,) = re.findall(pattern + r" (.+?);", STYLE.read_text(encoding="utf-8"))
    both = re.findall(r"#[0-9a-fA-F]{6}", value)
    return both[0], both[-1]


def test_series_of_the_dashboard_have_the_colours_of_the_palette() -> None:
    rules = [r"--accent:", *(rf"\.c{number} {{ --look:" for number in range(1, len(COLOURS)))]
    assert [colours_of(rule) for rule in rules] == list(zip(COLOURS, COLOURS_ON_DARK, strict=True))
    assert colours_of(r"\.rest { --look:") == (LIGHT_GREY, GREY)


def test_verdicts_of_the_dashboard_have_the_colours_of_the_palette() -> None:
    assert colours_of("--good:") == GOOD
    assert colours_of("--bad:") == BAD


def test_scripts_that_draw_have_no_colours_of_their_own() -> None:
    for folder in ("benchmarks", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            assert not re.findall(r'"#[0-9a-fA-F]{6}"', path.read_text(encoding="utf-8")), path.name
