from dataclasses import fields
from pathlib import Path
from typing import Any

from tools.write_policies import PAGE, policies_page

from glbandits.policies import POLICIES
from tests.cli.in_process import glb


def test_list_is_plain_and_complete(tmp_path: Path) -> None:
    run = glb("policies", folder=tmp_path, environment={"COLUMNS": "60"})
    assert run.returncode == 0
    lines = run.stdout.splitlines()
    kinds: dict[str, Any] = dict(POLICIES)
    for name, kind in kinds.items():
        assert name in lines
        assert all(f"    {field.name}={field.default}" in lines for field in fields(kind))
    assert not set(run.stdout) & set("…─│┃━")
    assert max(map(len, lines)) <= 100


def test_page_of_the_docs_is_up_to_date() -> None:
    assert policies_page() == PAGE.read_text(encoding="utf-8"), "run: python tools/write_policies.py"
