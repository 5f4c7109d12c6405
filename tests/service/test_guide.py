"""Programs that readers copy from docs/production.md."""

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from glbandits.service.runtime.service import microseconds
from glbandits.service.storage.api_keys import Keys
from glbandits.service.storage.sqlite_store import SqliteStore

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "production.md").read_text()


def python_block(word: str) -> str:
    """The first program of the guide that has this word."""
    programs: list[str] = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    return next(code for code in programs if word in code)


def run_program(program: str, folder: Path) -> str:
    """The output of a program that starts with a store and a key for it."""
    with closing(SqliteStore(folder / "glb.db")) as store:
        key = Keys(store, microseconds).create("all").text
    script = folder / "program.py"
    script.write_text(f"KEY = {{'authorization': 'Bearer {key}'}}\n{program}")
    run = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


MOUNTED = """
from starlette.testclient import TestClient

RANK = {"actions": [{"id": "a", "features": [{"x": 1}]}], "eventId": "a/b"}
with TestClient(app) as client:
    print(client.get("/bandit/readyz").json())
    print(client.post("/bandit/personalizer/v1.0/rank", json=RANK, headers=KEY).status_code)
    print(client.post("/bandit/loops/shop/v1/decide", json={"arms": [[0.0] * 256]}, headers=KEY).status_code)
    reward = client.post("/bandit/personalizer/v1.0/events/a%2Fb/reward", json={"value": 1}, headers=KEY)
    print(reward.status_code, client.get("/bandit/v1/status").status_code, client.get("/bandit/dashboard").status_code)
    print(client.get("/bandit/nothing").json()["detail"])
"""


@pytest.mark.system
@pytest.mark.parametrize("outer", ["FastAPI(lifespan=lifespan)", "Starlette(lifespan=lifespan)"])
def test_application_can_be_mounted(tmp_path: Path, outer: str) -> None:
    program = python_block("FastAPI").replace("FastAPI(lifespan=lifespan)", outer)
    lines = run_program(f"from starlette.applications import Starlette\n{program}{MOUNTED}", tmp_path).splitlines()
    assert lines == ["{'status': 'ready'}", "201", "200", "204 401 200", "there is no endpoint at /bandit/nothing"]


@pytest.mark.system
def test_mounted_application_without_lifespan_is_503(tmp_path: Path) -> None:
    program = python_block("FastAPI").replace("FastAPI(lifespan=lifespan)", "FastAPI()")
    ask = """
from starlette.testclient import TestClient
reply = TestClient(app).get("/bandit/v1/status", headers=KEY)
print(reply.status_code, reply.json()["code"], "Run its lifespan" in reply.json()["detail"])
"""
    assert run_program(program + ask, tmp_path) == "503 NotStarted True\n"


WATCHED = """
import logging
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

spans, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
with TestClient(served) as client:
    def fail(_):
        raise RuntimeError("unforeseen")
    app.state.site.service.loop = fail
    print(client.get("/v1/status", headers=KEY).status_code)
print(any(span.name.startswith("GET") for span in spans.get_finished_spans()))
print([error["exception"]["values"][0]["value"] for error in errors if "exception" in error])
"""


@pytest.mark.system
def test_sentry_and_opentelemetry_see_requests(tmp_path: Path) -> None:
    program = python_block("sentry").replace(
        "sentry_sdk.init(", "errors = []\nsentry_sdk.init(before_send=lambda event, _: errors.append(event), "
    )
    assert run_program(program + WATCHED, tmp_path).splitlines() == ["500", "True", "['unforeseen']"]
