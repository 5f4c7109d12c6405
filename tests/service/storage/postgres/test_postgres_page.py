"""The PostgreSQL commands and statements of docs/production.md, on a real server and with two real rankers."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.service.http.servers.server_process import ACTIONS, GLB, running
from tests.service.storage.postgres.postgres_server import PostgresServer

pytestmark = pytest.mark.system

PAGE = (Path(__file__).parents[4] / "docs" / "production.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## PostgreSQL\n")[2].partition("\n## ")[0]
DOCUMENTED_ADDRESS = "postgresql://glb@db.example/shop"
NEEDS_MORE = ("pip install", "# ", "?sslmode=", "?service=")
"""Commands of the page that need another installation, a certificate or a service file."""


def commands() -> list[str]:
    """The commands of the page that a test can run, without their comments."""
    blocks = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line.partition(" #")[0] for line in lines if not any(part in line for part in NEEDS_MORE)]


def statements() -> list[str]:
    """The SQL statements of the page."""
    (block,) = re.findall(r"```sql\n(.*?)```", SECTION, re.DOTALL)
    return [statement.strip() for statement in block.split(";") if statement.strip()]


def test_commands_of_the_page_move_back_up_and_restore_a_store(postgres: PostgresServer, tmp_path: Path) -> None:
    create_user, create_shop, move, serve, dump, restore, replay = commands()
    with running(tmp_path, store=str(tmp_path / "glb.db")) as server:
        assert server.ask("POST", "/personalizer/v1.0/rank", {"eventId": "moved", "actions": ACTIONS}).status == 201
        server.signal()
        assert server.wait() == 0
    host = Path(postgres.socket_path).parent
    shop, restored = f"postgresql://glb@/shop?host={host}", f"postgresql://postgres@/restored?host={host}"
    programs = Path(postgres.program("psql")).parent
    environment = os.environ | {"PGHOST": str(host), "PGUSER": "postgres", "PATH": f"{programs}:{os.environ['PATH']}"}

    def run(command: str) -> None:
        command = command.replace(DOCUMENTED_ADDRESS, f"'{shop}'").replace("postgresql:///restored", f"'{restored}'")
        command = re.sub("^glb ", f"{shlex.join(GLB)} ", command)
        done = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"

    run(create_user.replace("--pwprompt", ""))  # it would ask for the password at a terminal
    run(create_shop)
    run(move)
    assert serve.split()[:3] == ["glb", "serve", "--store"]
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    with running(folders[0], store=shop) as first, running(folders[1], store=shop) as second:
        for number, ranker in enumerate([first, second] * 5):
            asked = {"eventId": f"event-{number}", "actions": ACTIONS}
            assert ranker.ask("POST", "/personalizer/v1.0/rank", asked, server.key).status == 201
            other = second if ranker is first else first
            path = f"/personalizer/v1.0/events/event-{number}/reward"
            assert other.ask("POST", path, {"value": 1.0}, server.key).status == 204
        with psycopg.connect(shop) as connection:
            found = [connection.execute(statement.encode()).fetchall() for statement in statements()]
        assert ("default", "decision", "accepted", 11) in found[0]
        assert sum(connections for _, _, connections in found[2]) > 2  # of both servers
    for command in (dump, restore, replay):
        run(command)
