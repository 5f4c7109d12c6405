"""`glb evaluate` on the log of a PromptRouter."""

import json
from pathlib import Path

import pytest

from tests.cli.in_process import glb
from tests.routing.simulated_log import simulated_routes, written


@pytest.fixture(autouse=True)
def _plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")


def test_log_of_a_router_has_table_answer_page_and_record(tmp_path: Path) -> None:
    written(simulated_routes(400, 1), tmp_path / "log")
    options = ("--budget", "0.2,1", "--budget", "1.5", "--policy", "mix:small,large,0.25", "--level", "0.9")
    run = glb("evaluate", "log", *options, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    table = {line.split("  ")[0]: line for line in run.stdout.splitlines()}
    names = {"the router", "arm:small", "arm:large", "uniform", "mix:small,large,0.25", "budget:0.2", "budget:1.5"}
    assert names <= set(table)
    assert "90% interval" in table["policy"]
    assert "Budget 0.2: the best mix, mix:small,medium," in run.stdout
    assert "At the cost of today, " in run.stdout
    record = json.loads((tmp_path / "out/evaluate/audit.json").read_text())
    assert record["audited"][0]["name"] == "the router"
    assert set(record["budgets"]) >= {"0.2", "1.0", "1.5"}
    page = (tmp_path / "out/evaluate/audit.html").read_text()
    assert "chart-quality-cost" in page
    assert "glb evaluate log --budget 0.2,1" in page


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("nothing --budget 1", "must be a file, a folder with files"),
        ("log --budget nan", "budget must be a finite number above 0"),
        ("log --arm model --seed 3", "the audit of a router has no option --arm"),
        ("log --out log/routes-1.parquet", "--out needs a writable folder"),
    ],
)
def test_wrong_input_is_refused_with_one_sentence(options: str, reason: str, tmp_path: Path) -> None:
    written(simulated_routes(40, 2), tmp_path / "log")
    (tmp_path / "broken.parquet").write_text("no parquet")
    run = glb("evaluate", *options.split(), folder=tmp_path)
    assert run.returncode == 2
    assert reason in run.stderr
    assert "Traceback" not in run.stderr
