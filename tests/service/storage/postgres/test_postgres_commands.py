"""Commands that read the store of a server take the address of a PostgreSQL store."""

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import Identity
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.storage.loop_store import IDENTITY
from glbandits.service.storage.postgres_store import PostgresStore
from tests.cli.in_process import glb
from tests.service.runtime.loops.loop_helpers import Clock, play_rounds
from tests.service.storage.postgres.postgres_server import PostgresServer


@pytest.fixture(scope="module", name="address")
def address_fixture(postgres: PostgresServer) -> str:
    """A store with 60 decisions that were learned."""
    clock = Clock()
    with closing(PostgresStore(address := postgres.new_address())) as store:
        store.save_document("default", IDENTITY, clock(), msgspec.json.encode(Identity("the same in every test")))
        loop = Loop("default", store, clock)
        loop.configure(LoopConfig(width=8, reward_wait=10.0))
        play_rounds(loop, store, clock, 60)
    return address


def test_replay_repeats_the_decisions(address: str, tmp_path: Path) -> None:
    run = glb("store", "verify", "--store", address, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "60 decisions repeated with 4 models, 60 learned again: no difference" in run.stdout


def test_a_log_is_exported_and_evaluated(address: str, tmp_path: Path) -> None:
    run = glb("store", "export", "log", "--store", address, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "log: 60 decisions in 1 file; 0 left out" in run.stdout
    run = glb("evaluate", address, "--policy", "uniform", "--estimator", "ips", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "uniform: evaluated on all 60 rows" in run.stdout


def test_keys_are_created_listed_and_revoked(address: str, tmp_path: Path) -> None:
    assert glb("store", "keys", "create", "shop", "--store", address, folder=tmp_path).returncode == 0
    listed = glb("store", "keys", "list", "--store", address, folder=tmp_path).stdout
    (row,) = (line for line in listed.splitlines() if "shop" in line)
    key = row.strip("│ ").split()[0]
    assert glb("store", "keys", "revoke", key, "--store", address, folder=tmp_path).returncode == 0
    assert "shop" not in glb("store", "keys", "list", "--store", address, folder=tmp_path).stdout


def test_backup_names_pg_dump(address: str, tmp_path: Path) -> None:
    run = glb("store", "backup", "copy", "--store", address, folder=tmp_path)
    assert run.returncode != 0
    assert "use pg_dump" in run.stderr
