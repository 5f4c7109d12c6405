import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from glbandits.cli.commands import serve
from glbandits.service.http import server as http_server
from glbandits.service.http.start_message import no_key_line
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.cli.in_process import glb
from tests.service.http.servers.server_process import ACTIONS, running

pytestmark = pytest.mark.system


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl to paste the line into")
def test_the_printed_request_works(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        line = server.printed.splitlines()[-1]
        answer = json.loads(subprocess.check_output(["sh", "-c", line], text=True))
    assert answer["rewardActionId"] in ("tea", "cola")
    assert sum(one["probability"] for one in answer["ranking"]) == pytest.approx(1.0)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl to paste the line into")
def test_the_printed_request_works_at_later_starts(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        key = first.key or ""
    with running(tmp_path) as second:
        line = second.printed.splitlines()[-1]
        printed = subprocess.check_output(["sh", "-c", line], text=True, env={"GLB_KEY": key, "PATH": "/usr/bin:/bin"})
    assert "rewardActionId" in printed


def test_server_prints_the_reward_window_that_applies(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    with running(tmp_path / "new") as server:
        advice = "For a trial: glb serve --reward-window 5s"
        assert f"Rewards are accepted for 10 min, then learned. {advice}\n" in server.printed
    with running(tmp_path, "--reward-window", "5s") as server:
        assert "Rewards are accepted for 5 s, then learned.\n" in server.printed
        assert server.ask("GET", "/v1/configuration").json["rewardWait"] == 5
    with running(tmp_path) as server:
        assert "accepted for 5 s, then learned. Loop default is in the store with this reward window" in server.printed


def test_settings_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "glb.toml").write_text('loops = ["news", "shop"]\n')
    with running(tmp_path, "--settings", "glb.toml") as server:
        assert server.ask("GET", "/v1/loops").json["loops"] == ["news", "shop"]


@pytest.mark.parametrize(
    ("words", "environment", "message"),
    [
        (("--log-level", "none"), {}, "glb: --log-level cannot be 'none': Invalid enum value 'none'."),
        ((), {"GLB_SERVE_PROT": "80"}, "glb: GLB_SERVE_PROT: unknown setting 'prot'; did you mean 'port'"),
        (("--store", "no/such/folder.db"), {}, "no/such/folder.db could not be opened"),
    ],
)
def test_wrong_settings_are_one_error_line(
    words: tuple[str, ...], environment: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "set_up_logging", lambda _settings: None)
    run = glb("serve", "--port", "0", *words, folder=tmp_path, environment=environment)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "missing.safetensors"), "there is no file missing.safetensors"),
        (("--reward-window", "90d"), "reward_window must be"),
    ],
)
def test_a_failed_start_creates_no_store_and_no_key(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "set_up_logging", lambda _settings: None)
    run = glb("serve", "--port", "0", "--store", "a.db", *words, folder=tmp_path)
    assert run.returncode == 2
    assert message in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_later_start_says_how_to_create_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "set_up_logging", lambda _settings: None)
    monkeypatch.setattr(http_server, "run_server", lambda _settings, _socket, announce: announce())
    first, later = (glb("serve", "--port", "0", "--store", "a.db", folder=tmp_path).stdout for _ in range(2))
    line = "`glb store keys create NAME --store a.db`"
    assert "\nKey: " in first
    assert line not in first
    assert "\nKey: " not in later
    assert line in later
    assert "secret" not in no_key_line("postgresql://me:secret@db/glb")


WITHOUT_LAB = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"altair", "joblib", "polars", "sklearn", "vl_convert"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from glbandits.cli.main import main
main()
"""


def glb_without_lab(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", WITHOUT_LAB, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={"COLUMNS": "200"})


def test_the_extra_serve_is_enough_to_serve() -> None:
    run = glb_without_lab("serve", "--help")
    assert (run.returncode, run.stderr) == (0, "")
    run = glb_without_lab("compare", "file.toml", "--jobs", "2")
    assert run.returncode == 2
    assert run.stderr.endswith("In a clone of glbandits, run pip install '.[lab]'.\n")
    assert glb_without_lab("--help").returncode == 0


def test_a_backup_has_all_acknowledged_events(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        body = {"eventId": "before", "actions": ACTIONS}
        assert server.ask("POST", "/personalizer/v1.0/rank", body).status == 201
        run = glb("store", "backup", "copy.db", "--store", "store.db", folder=tmp_path)
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.endswith("bytes, no defects\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "copy.db").rename(tmp_path / "other" / "store.db")
    with running(tmp_path / "other") as restored:
        assert restored.ask("GET", "/v1/events/before", key=server.key).json["eventId"] == "before"


def test_a_backup_does_not_overwrite(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "store.db").close()
    (tmp_path / "copy.db").write_text("precious")
    run = glb("store", "backup", "copy.db", "--store", "store.db", folder=tmp_path)
    assert run.returncode == 2
    assert (tmp_path / "copy.db").read_text() == "precious"
    assert glb("store", "backup", "new.db", "--store", "none.db", folder=tmp_path).returncode == 2


def test_the_password_of_a_database_is_not_printed(tmp_path: Path) -> None:
    run = glb(
        "serve", "--port", "0", "--store", "postgresql://shop:secret@127.0.0.1:1/x?sslmode=disable", folder=tmp_path
    )
    assert run.returncode == 2
    assert "Opening store postgresql://127.0.0.1:1/x\n" in run.stdout
    assert "secret" not in run.stdout + run.stderr
