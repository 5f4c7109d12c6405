"""The TypeScript example: types from the OpenAPI file, a strict build, and a run against a real server."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.http.servers.server_process import Running, running

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
SOURCES = ("package.json", "package-lock.json", "tsconfig.json", "src/offers.ts")


def run(folder: Path, *command: str, timeout: int = 100) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture(scope="module", name="example")
def example_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built beside a copy of the OpenAPI file."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("the TypeScript example needs node and npm")
    root = tmp_path_factory.mktemp("typescript")
    folder = root / "examples" / "typescript"
    for name in ("docs/openapi.json", *(f"examples/typescript/{source}" for source in SOURCES)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=20000")
    try:
        installed = run(folder, npm, "ci", *options)
    except subprocess.TimeoutExpired:
        pytest.skip("the npm registry does not answer")
    if installed.returncode:
        pytest.skip(f"the packages could not be installed from the npm registry: {installed.stderr[-300:]}")
    built = run(folder, npm, "run", "build")
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module", name="server")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


def test_the_program_decides_and_rewards(example: Path, server: Running) -> None:
    done = run(example, "node", "build/offers.js", server.address, str(server.key))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["visits"] == 20
    counts = server.ask("GET", "/v1/status").json["counts"]
    assert (counts["decisions"]["accepted"], counts["rewards"]["accepted"]) == (20, 20)


def test_an_error_response_names_the_problem(example: Path, server: Running) -> None:
    done = run(example, "node", "build/offers.js", server.address, "wrong")
    assert done.returncode == 1
    assert "Error: 401 Unauthorized: the key is unknown or revoked" in done.stderr


MISTAKES = [
    ("context: { hour }, rows", "context: { hour }, row: rows", "'row' does not exist in type"),
    ("OFFERS[decided.arm]", "OFFERS[decided.index]", "Property 'index' does not exist"),
    ('POST("/v1/reward"', 'POST("/v1/rewards"', "is not assignable to parameter"),
    (
        "{ eventId, value, key",
        "{ eventId, value: String(value), key",
        "'string' is not assignable to type 'number'",
    ),
]


def test_a_wrong_program_does_not_compile(example: Path) -> None:
    program = (example / "src" / "offers.ts").read_text()
    for right, wrong, _ in MISTAKES:
        assert right in program
        program = program.replace(right, wrong)
    (example / "src" / "offers.ts").write_text(program)
    checked = run(example, "node_modules/.bin/tsc", "--noEmit")
    for *_, message in MISTAKES:
        assert message in checked.stdout
