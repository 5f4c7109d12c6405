from pathlib import Path

from typer.testing import CliRunner

from glbandits.cli.app import app

PAGE = Path(__file__).parents[2] / "docs/policies.md"


def test_the_page_is_what_the_code_says() -> None:
    printed = CliRunner().invoke(app, ["policies", "--markdown"])
    assert printed.exit_code == 0
    assert printed.output == PAGE.read_text(encoding="utf-8"), "run: glb policies --markdown > docs/policies.md"
