"""Pages and public docstrings do not use the words of tests/retired_words.toml, and the glossary is in order."""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
RETIRED = ROOT / "tests" / "retired_words.toml"
CODE = re.compile(r"```.*?```|`[^`\n]*`|<!--.*?-->", re.DOTALL)
"""Code blocks and code spans of a page, which may contain names on disk or in old versions."""


@cache
def retired_words() -> dict[str, re.Pattern[str]]:
    """Patterns of the retired words, with their inflected forms."""
    words = tomllib.loads(RETIRED.read_text(encoding="utf-8"))
    return {word: re.compile(rf"\b{_stem(word)}(s|es|ies|d|ed|ing|ful|y)?\b", re.IGNORECASE) for word in words}


def _stem(word: str) -> str:
    """The word without a final "e" or "y", which some forms drop.

    >>> _stem("hope"), _stem("tally"), _stem("luck")
    ('hope?', 'tall(?:y|(?=ies))', 'luck')
    """
    if word.endswith("e"):
        return f"{word}?"
    return f"{word[:-1]}(?:y|(?=ies))" if word.endswith("y") else word


def pages() -> Iterator[tuple[str, str]]:
    """The name and the text, without code, of every page."""
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        yield path.relative_to(ROOT).as_posix(), CODE.sub(" ", path.read_text(encoding="utf-8"))


def public_docstrings() -> Iterator[tuple[str, str]]:
    """The package (or top-level module) and the text of every public docstring and public name in src."""
    source = ROOT / "src" / "glbandits"
    for path in sorted(source.rglob("*.py")):
        relative = path.relative_to(source)
        package = f"src/glbandits/{relative.parts[0]}"
        for text in _public_texts(ast.parse(path.read_text(encoding="utf-8"))):
            yield package, CODE.sub(" ", text)


def _public_texts(scope: ast.Module | ast.ClassDef) -> Iterator[str]:
    for node in scope.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value  # the docstring of the scope, or of the attribute before it
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", node.name)
            if isinstance(node, ast.ClassDef):
                yield from _public_texts(node)
            else:
                yield ast.get_docstring(node) or ""


@cache
def uses() -> dict[str, dict[str, str]]:
    """For each package or page the retired words that it uses, each with an excerpt."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for where, text in (*pages(), *public_docstrings()):
        for word, pattern in retired_words().items():
            match = pattern.search(text)
            if match is not None:
                found[where][word] = " ".join(text[max(0, match.start() - 40) : match.end() + 40].split())
    return found


def test_retired_words_are_not_used() -> None:
    wrong = [
        f"{where} uses the retired word {word!r}: ...{excerpt}..."
        for where, words in uses().items()
        for word, excerpt in words.items()
    ]
    assert not wrong, "\n".join([*wrong, "tests/retired_words.toml has the words to use instead"])


def test_glossary_defines_each_word_once() -> None:
    definitions = GLOSSARY.read_text(encoding="utf-8")
    words = re.findall(r"^\| ([^|]+) \|", definitions, re.MULTILINE)
    words = [word for word in words if word not in ("word", "---")]
    assert len(words) == len(set(words))
    for section in definitions.split("\n## ")[1:]:
        entries = [word for word in re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE) if word not in ("word", "---")]
        assert entries == sorted(entries, key=str.lower)


def test_every_decision_record_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\((0\d{3}-[^)]+\.md)\)", index)
    assert linked == sorted(path.name for path in folder.glob("0*.md"))


def test_decision_records_fit_on_a_screen() -> None:
    for record in (ROOT / "docs" / "decisions").glob("0*.md"):
        assert len(record.read_text(encoding="utf-8").split()) <= 250, record.name


@pytest.mark.parametrize("package", ["bandit", "evaluation", "lab", "policies", "routing"])
def test_only_the_service_replays(package: str) -> None:
    allowed = ("glbandits.service.runtime.replay", "service.runtime.replay", "The replay of Li et al.")
    for path in (ROOT / "src/glbandits" / package).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for words in allowed:
            text = text.replace(words, "")
        assert "replay" not in text.lower(), path
