"""`glb route audit`: the log of a PromptRouter, and LiteLLM's spend logs."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from glbandits.routing.spend_logs import read_spend_logs
from tests.cli.in_process import glb
from tests.routing.simulated_log import simulated_routes, written


@pytest.fixture(autouse=True)
def _plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")


def spend_rows(rows: int) -> list[dict[str, object]]:
    """Rows of LiteLLM_SpendLogs: long prompts go to the large model more often."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(10, 2000, rows)
    is_large = rng.random(rows) < np.where(tokens > 1000, 0.7, 0.3)
    return [
        {
            "request_id": f"r{row}",
            "call_type": "acompletion",
            "spend": float((0.002 if large else 0.0001) * rng.uniform(0.5, 1.5)),
            "prompt_tokens": int(token),
            "startTime": f"2026-11-01T10:{row // 60 % 60:02d}:{row % 60:02d}Z",
            "model": "large" if large else "small",
            "cache_hit": "False",
            "status": "success",
            "metadata": json.dumps({"spend_logs_metadata": {"score": float(0.6 + 0.3 * large)}}),
        }
        for row, (token, large) in enumerate(zip(tokens, is_large, strict=True))
    ]


def write_lines(rows: list[dict[str, object]], file: Path) -> None:
    file.write_text("\n".join(map(json.dumps, rows)) + "\n")


def test_log_of_a_router_has_table_answer_page_and_record(tmp_path: Path) -> None:
    written(simulated_routes(400, 1), tmp_path / "log")
    options = ("--budget", "0.2,1", "--budget", "1.5", "--policy", "mix:small,large,0.25", "--level", "0.9")
    run = glb("route", "audit", "log", *options, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    table = {line.split("  ")[0]: line for line in run.stdout.splitlines()}
    names = {"the router", "arm:small", "arm:large", "uniform", "mix:small,large,0.25", "budget:0.2", "budget:1.5"}
    assert names <= set(table)
    assert "90% interval" in table["policy"]
    assert "Budget 0.2: the best mix, mix:small,medium," in run.stdout
    assert "At the cost of today, " in run.stdout
    record = json.loads((tmp_path / "out/audit/audit.json").read_text())
    assert record["audited"][0]["name"] == "the router"
    assert set(record["budgets"]) >= {"0.2", "1.0", "1.5"}
    page = (tmp_path / "out/audit/audit.html").read_text()
    assert "chart-quality-cost" in page
    assert "glb route audit log --budget 0.2,1" in page


def test_spend_log_says_what_cannot_be_evaluated(tmp_path: Path) -> None:
    rows = spend_rows(100)
    rows[3]["status"], rows[4]["cache_hit"] = "failure", "True"
    write_lines(rows, tmp_path / "spend.jsonl")
    run = glb("route", "audit", "spend.jsonl", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "does not have the probability with which each model was chosen" in run.stdout
    assert "2 requests are left out because they failed, or the cache answered" in run.stdout
    counts = {
        line.split()[0]: int(line.split()[1]) for line in run.stdout.splitlines() if line[:5] in ("small", "large")
    }
    assert sum(counts.values()) == 98
    assert not (tmp_path / "out/audit/audit.html").exists()


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet", "json"])
def test_estimated_propensities_evaluate_a_spend_log_with_a_warning(suffix: str, tmp_path: Path) -> None:
    rows, file = spend_rows(400), tmp_path / f"spend.{suffix}"
    if suffix == "jsonl":
        write_lines(rows, file)
    elif suffix == "json":
        file.write_text(json.dumps(rows))
    else:
        (pl.DataFrame(rows).write_csv if suffix == "csv" else pl.DataFrame(rows).write_parquet)(file)
    run = glb("route", "audit", file.name, "--estimate-propensities", "--quality", "score", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "Warning: the propensities of the 400 chosen arms were estimated" in run.stdout
    audited = {each["name"]: each for each in json.loads((tmp_path / "out/audit/audit.json").read_text())["audited"]}
    assert audited["arm:large"]["values"]["quality"]["value"] == pytest.approx(0.9, abs=0.01)
    assert audited["arm:large"]["values"]["cost"]["value"] == pytest.approx(0.002, rel=0.1)


def test_spend_log_without_quality_is_evaluated_for_costs(tmp_path: Path) -> None:
    write_lines(spend_rows(300), tmp_path / "spend.jsonl")
    run = glb("route", "audit", "spend.jsonl", "--estimate-propensities", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "the log has no quality" in run.stdout
    assert "picture" not in (tmp_path / "out/audit/audit.html").read_text().split("<ul>")[1].split("</ul>")[0]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("nothing", "must be a file, a folder with files"),
        ("log --budget 0.2,much", "--budget is a list of mean costs"),
        ("log --budget nan", "budget must be a finite number above 0"),
        ("log --policy mix:small,large", "a policy is uniform"),
        ("log --level 2", "level must be"),
        ("log --quality score", "--quality is for spend logs"),
        ("log --estimate-propensities", "--estimate-propensities is for spend logs"),
        ("spend.jsonl --quality stars", "no request has 'stars', as a column or in its metadata"),
        ("other.jsonl", "must be an export of LiteLLM_SpendLogs; it has no column"),
        ("broken.jsonl", "must have one JSON object for each request"),
        ("negative.jsonl", "cost must be at least 0"),
        ("binary.jsonl", "must have one JSON object for each request"),
        ("broken.parquet", "the table could not be read"),
        ("empty.jsonl", "no decision with complete feedback"),
        ("log --out log/routes-1.parquet", "--out needs a writable folder"),
    ],
)
def test_wrong_input_is_refused_with_one_sentence(options: str, reason: str, tmp_path: Path) -> None:
    written(simulated_routes(40, 2), tmp_path / "log")
    write_lines(spend_rows(10), tmp_path / "spend.jsonl")
    write_lines([{"a": 1}], tmp_path / "other.jsonl")
    write_lines([row | {"spend": -1.0} for row in spend_rows(10)], tmp_path / "negative.jsonl")
    (tmp_path / "broken.jsonl").write_text('{"model": \n')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe")
    (tmp_path / "broken.parquet").write_text("no parquet")
    run = glb("route", "audit", *options.split(), folder=tmp_path)
    assert run.returncode == 2
    assert reason in run.stderr
    assert "Traceback" not in run.stderr


def test_requests_with_odd_metadata_or_without_a_model_are_left_out(tmp_path: Path) -> None:
    odd: list[dict[str, object]] = [
        {"metadata": metadata} for metadata in ("no JSON", "[1]", [1], 5, None, {"spend_logs_metadata": 5})
    ]
    odd += [{"model": None}, {"model": 5}]
    rows = [row | change for row, change in zip(spend_rows(20), [*odd, *[{}] * 12], strict=True)]
    write_lines(rows, tmp_path / "spend.jsonl")
    content = (tmp_path / "spend.jsonl").read_text()
    (tmp_path / "spend.jsonl").write_text(content, encoding="utf-8-sig")
    log = read_spend_logs(tmp_path / "spend.jsonl", "score")
    assert len(log.cost) == 12
    assert log.notes == ("8 requests are left out because their model, spend or quality is missing",)
