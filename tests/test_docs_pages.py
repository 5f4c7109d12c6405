"""Pages of the documentation: code blocks run, links lead somewhere, public names are documented."""

import ast
import importlib
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from glbandits.lab.paper.claims import (
    NOT_COVERED,
    NOT_REPRODUCED,
    NOT_TESTABLE,
    ONLY_BY_PROTOCOL,
    REPRODUCED,
    check_claims,
)
from glbandits.lab.paper.paper_summary import read_summary
from glbandits.policies import POLICIES

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```(?:python|py)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
LINE = 118
"""The characters of code that fit on a page of the site at 1280 pixels."""
LINK = re.compile(r"(?<!`)\[[^\]]*\]\(([^)\s]+)\)")
API = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "api").glob("*.md")))
SOURCE_PATH = re.compile(r"`((?:[a-z0-9_]+/)+[a-z0-9_]+\.py)`")
PACKAGES = re.findall(r"^\.\. automodule:: (\S+)", API, re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def plain_blocks(page: Path) -> list[str]:
    """Return the Python blocks that doctest does not run, because they have no prompt."""
    blocks = [match[2] for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    return [re.sub(r"^   ", "", block, flags=re.MULTILINE) if block.startswith("   ") else block
            for block in blocks if ">>>" not in block]  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_without_prompt_parse_and_import_existing_names(page: Path) -> None:
    for block in plain_blocks(page):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("glbandits"):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)


@pytest.mark.parametrize("page", [page for page in PAGES if "docs" in page.parts], ids=name_of)
def test_code_lines_fit_the_page(page: Path) -> None:
    for language, block in FENCE.findall(page.read_text(encoding="utf-8")):
        if language != "text" and not language.startswith("{"):  # the site wraps lines of text
            assert not [line for line in block.splitlines() if len(line) > LINE]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_files_and_headings_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in LINK.findall(text):
        if "://" in link or link.startswith("mailto:"):
            continue
        file, _, heading = link.partition("#")
        target = page if not file else (page.parent / file).resolve()
        assert target.exists(), link
        if heading and target.suffix == ".md":
            assert heading in headings(target), link


def test_pages_of_the_site_do_not_link_to_decision_records() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.parent.name == "decisions" or "decisions/0" not in page.read_text(encoding="utf-8"), page


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "decisions"], ids=name_of)
def test_source_files_that_pages_name_exist(page: Path) -> None:
    files = [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("[a-z]*/**/*.py")]
    for name in SOURCE_PATH.findall(page.read_text(encoding="utf-8")):
        assert any(file.endswith(f"/{name}") for file in files), name


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "decisions"], ids=name_of)
def test_benchmarks_that_pages_name_exist(page: Path) -> None:
    for name in re.findall(r"`(?:python -m )?benchmarks (\w+)`", page.read_text(encoding="utf-8")):
        assert (ROOT / "benchmarks" / f"{name}.py").is_file(), name


def test_readme_and_site_begin_with_the_paper_and_its_command() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    first = "\n".join(lines[lines.index("<!-- front page -->") + 1 : 10])  # docs/index.md includes it from here on
    assert "implementation of SGD-TS" in first
    assert "https://proceedings.mlr.press/v130/ding21a.html" in first
    assert "https://arxiv.org/abs/2006.04012" in first
    assert "`make run`" in first
    assert len(lines) <= 120


def test_readme_has_the_scorecard_of_the_claims() -> None:
    claims = check_claims(read_summary(ROOT / "docs" / "results.json"))
    counts = Counter(claim.verdict for claim in claims)
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{len(claims)} claims of the paper [{counts[REPRODUCED]} are reproduced" in readme
    assert f"{counts[ONLY_BY_PROTOCOL]} only by the paper's protocol](docs/claims.md)" in readme
    assert f"{counts[NOT_REPRODUCED]} are not, and {counts[NOT_TESTABLE] + counts[NOT_COVERED]} cannot" in readme


def test_page_on_the_paper_names_code_and_tests_that_exist() -> None:
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    places = re.findall(r"`([a-z_/]+\.py)`: ((?:`\w+`(?:, )?)+)", page)
    tests = re.findall(r"`(tests/[a-z_/]+\.py)(?:::(\w+))?`", page)
    assert len(places) > 15
    assert len(tests) > 10
    for path, names in places:
        source = (ROOT / "src" / "glbandits" / path).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^ *(?:def|class) {name}\b", source, re.MULTILINE), (path, name)
    for path, name in tests:
        assert f"def {name or 'test_'}" in (ROOT / path).read_text(encoding="utf-8"), (path, name)


def test_first_pages_have_the_number_of_policies() -> None:
    for page, words in (
        ("README.md", "[{} policies]"),
        ("CHANGELOG.md", "- {} policies"),
    ):
        assert words.format(len(POLICIES)) in (ROOT / page).read_text(encoding="utf-8"), page


def test_install_commands_work_in_a_clone() -> None:
    """The package is on no index, so pages and messages install `.` with extras that exist."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    files = [path for folder in ("src", "examples", "deploy", "docs") for path in (ROOT / folder).rglob("*")]
    named: set[str] = set()
    for path in [*PAGES, *(path for path in files if path.suffix in {".py", ".md", ".service", ".txt", ".html"})]:
        for command in re.findall(r"pip install .*", path.read_text(encoding="utf-8")):
            assert not re.search(r"\bglbandits\b(?!-)", command), f"{path.relative_to(ROOT)}: {command}"
            named.update(*(found.split(",") for found in re.findall(r"\.\[([\w,]+)\]", command)))
    assert {"lab", "serve", "litellm"} <= named <= set(extras)


def headings(page: Path) -> set[str]:
    lines = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL).splitlines()
    titles = [line.lstrip("#").strip() for line in lines if re.match(r"#+ ", line)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_in_the_api_reference_with_a_docstring(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if callable(value) and hasattr(value, "__doc__") and not isinstance(value, dict):
            assert value.__doc__ or name in API, f"{package}.{name} has no docstring"
        else:  # autodoc does not find the description of an imported constant
            assert re.search(rf"py:data:: \S*\b{name}$", API, re.MULTILINE), f"{package}.{name} is not in docs/api"


def test_names_at_the_top_level_are_few_and_can_be_imported() -> None:
    names = importlib.import_module("glbandits").__all__
    assert {"Agent", "Bandit", "Optimist", "Policy", "SgdTs", "check_policy"} < set(names)
    assert len(names) <= 23


def test_every_public_package_has_a_page() -> None:
    assert {"glbandits", "glbandits.evaluation", "glbandits.features", "glbandits.policies"} <= set(PACKAGES)
