"""Keep measured figures in README and docs equal to the result files that have them.

    python tools/figures.py            # write the figures from their sources
    python tools/figures.py --check    # change nothing; fail if a figure differs, or has no source

A figure in prose names its source, a file in docs/:

    covers <!-- figure: benchmarks/coverage_figures.txt "good" "fixed n" 1 -->0.963<!-- end --> of the logs

Each text in quotation marks is searched after the one before it, the first one from the start of the file. The numbers
are counted after the last text, to the end of its line, and replace those between the marks, rounded as they are.
Spaces, `|`, `` ` `` and `*` of the source do not matter. Tables are included (`literalinclude`, `csv-table`) or written
by the tool that measures, into a page that says so in its first line.

`--check` also reports figures that look measured and have no source:

- a number with its uncertainty: "1.2 ± 0.1", "1.2 [1.1, 1.3]",
- a ratio with a decimal point: "1.4 times",
- a time in microseconds: "55 us",
- a number with a unit of time, memory or share, with a decimal point, or alone in a cell of a table, in a sentence or a
  table with a word of measurement (`WORDS`).

It sees no other measured number, such as "in 3 of 400 runs", and it believes what is in code, formulas and links: code
is checked by doctest. The levels 90, 95 and 5 % are never reported. A number that is given and not measured, such as a
setting in a sentence about time, stands between `<!-- given -->` and `<!-- end -->`.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
FIGURE = re.compile(r"<!-- figure: (.*?) -->(.*?)<!-- end -->", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])(?<![A-Za-z]-)-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
GENERATED = re.compile(r"<!-- (?:Written|Generated) by ")

WORDS = re.compile(
    r"(?i)\b(took|covers?|covered|coverage|measured|median|percentile|p50|p99|regrets?|CPU|seeds|simulations?|memory"
    r"|of (\w+ ){0,2}(runs|logs|loops|intervals|orders))\b"
)
DECIMAL = r"\d[\d,]*\.\d+"
UNCERTAIN = re.compile(rf"{DECIMAL} ?(?:±|\+-) ?\d|\d ± \d|{DECIMAL} \[-?{DECIMAL}, -?{DECIMAL}\]")
RATIO = re.compile(rf"{DECIMAL} times\b")
MICROSECONDS = re.compile(r"\d (?:us|µs)\b")
WITH_UNIT = re.compile(
    rf"(?<![\w.])(?!(?:90|95|5) ?%)(?:\d[\d,]*(?:\.\d+)?(?: ?%| (?:ms|s|seconds|[kKMG]i?B)\b)|{DECIMAL})"
    r"|(?<=\| )\d[\d,]*(?= \|)"
)
NOT_PROSE = re.compile(
    r"^ *(```|~~~).*?^ *\1|<!-- given -->.*?<!-- end -->|<!--.*?-->|(`+).+?\2|\$\$.*?\$\$|\$[^$\n]+\$|\]\([^)\n]*\)"
    r"|arXiv [\d.]+",
    re.DOTALL | re.MULTILINE,
)


def main(arguments: list[str]) -> None:
    """Write the figures of all pages, or check them. Exits with the problems that it finds."""
    is_check, problems = arguments == ["--check"], list[str]()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(ROOT)
        try:
            written = with_figures(text)
        except ValueError as error:
            problems.append(f"{name}: {error}")
            continue
        if is_check:
            problems += [f"{name}:{line}: {problem}" for line, problem in (*different(text, written), *unsourced(text))]
        elif written != text:
            page.write_text(written, encoding="utf-8")
    if problems:
        sys.exit("\n".join([*problems, "Run `python tools/figures.py`; its first lines say how to name a source."]))


def pages() -> Iterator[Path]:
    """Yield README and the pages of the site that people write. Decision records are history."""
    for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))):
        with page.open(encoding="utf-8") as file:
            if page.parent.name != "decisions" and not GENERATED.match(file.readline()):
                yield page


def with_figures(text: str) -> str:
    """Return the page with the figures of the sources. Raises ValueError if a source does not have one."""
    return FIGURE.sub(lambda match: match[0].replace(f"-->{match[2]}<", f"-->{figure(match[1], match[2])}<"), text)


def figure(source: str, shown: str) -> str:
    """Return the shown text with the numbers of its source.

    Raises ValueError if the source does not have them.
    """
    file, *rest = shlex.split(source)
    keys, columns = [part for part in rest if not part.isdigit()], [int(part) for part in rest if part.isdigit()]
    if not (DOCS / file).is_file():
        raise ValueError(f"docs/{file} of the figure {shown!r} does not exist")
    found = NUMBER.findall(line_after(keys, (DOCS / file).read_text(encoding="utf-8"), source))
    if len(columns) != len(NUMBER.findall(shown)) or not columns or max(columns) > len(found):
        raise ValueError(f"the source {source!r} has the numbers {found}, which do not fit the figure {shown!r}")
    numbers = iter([found[column - 1] for column in columns])
    return NUMBER.sub(lambda match: rounded(next(numbers), match[0]), shown)


def line_after(keys: list[str], text: str, source: str) -> str:
    """Return the rest of the line after the last of the texts."""
    text = "\n".join(" ".join(line.split()) for line in re.sub(r"[|`*]", " ", text).splitlines())
    for key in keys:
        _, found, text = text.partition(key)
        if not found:
            raise ValueError(f"{key!r} is not in the source {source!r}")
    return text.partition("\n")[0]


def rounded(number: str, like: str) -> str:
    """Return a number with as many decimal places as another one.

    >>> rounded("1,234.56", like="1,000.0"), rounded("0.963", like="0.9")
    ('1,234.6', '1.0')
    """
    places = len(like.partition(".")[2])
    return f"{float(number.replace(',', '')):{',' if ',' in number else ''}.{places}f}"


def different(text: str, written: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each figure that differs from its source."""
    for old, new in zip(FIGURE.finditer(text), FIGURE.finditer(written), strict=True):
        if old[0] != new[0]:
            yield line_of(text, old.start()), f"{old[2]!r} is {new[2]!r} in its source"


def unsourced(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each figure that looks measured and names no source."""
    for start, sentence, context in sentences(blank(NOT_PROSE, blank(FIGURE, text))):
        patterns = [UNCERTAIN, RATIO, MICROSECONDS] + [WITH_UNIT] * bool(WORDS.search(context))
        found = next((match for pattern in patterns if (match := pattern.search(sentence))), None)
        if found:
            yield line_of(text, start + found.start()), f"{found[0]!r} looks measured and names no source"


def sentences(prose: str) -> Iterator[tuple[int, str, str]]:
    """Yield each sentence with its position, and what tells whether it is about measurements.

    The latter is the sentence itself; of a row of a table also the head.
    """
    start, head = 0, ""
    for end in re.finditer(r"(?<=[.:;!?])[ \n]+(?=[A-Z(\[*])|\n\n|\n(?= *(?:[-*|]|\d+\.) ?)|\Z", prose):
        sentence = prose[start : end.start()]
        is_row = sentence.lstrip().startswith("|")
        head = (head or sentence) if is_row else ""
        yield start, sentence, head + sentence
        start = end.end()


def blank(pattern: re.Pattern[str], text: str) -> str:
    """Replace all but the line ends of each match by spaces."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def line_of(text: str, position: int) -> int:
    """Return the number of a line."""
    return text.count("\n", 0, position) + 1


if __name__ == "__main__":
    main(sys.argv[1:])
