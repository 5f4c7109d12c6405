import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glbandits.cli.app import app
from glbandits.common.errors import InvalidInput, UnknownName
from glbandits.service.http.server import first_key
from glbandits.service.server_settings import Settings
from glbandits.service.storage.api_keys import SCOPES, Keys, digest_of, find_key
from glbandits.service.storage.open_store import open_store
from glbandits.service.storage.sqlite_store import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "store.db")
    yield store
    store.close()


@pytest.fixture
def keys(store: SqliteStore) -> Keys:
    return Keys(store, lambda: 7)


def test_a_key_is_found_by_its_text_alone(keys: Keys) -> None:
    made = [keys.create(name) for name in "abc"]
    for new in made:
        assert find_key(digest_of(new.text.encode()), keys.live()) == new.key
    assert find_key(digest_of(b"another"), keys.live()) is None
    assert len({new.text for new in made}) == 3
    assert all(len(new.text) == 43 for new in made)  # 256 bits


def test_the_store_does_not_have_the_text(keys: Keys, tmp_path: Path) -> None:
    text = keys.create("shop").text.encode()
    files = [path.read_bytes() for path in tmp_path.iterdir()]
    assert any(b"shop" in content for content in files)
    assert not any(text in content for content in files)


def test_a_key_has_its_name_time_and_scopes(keys: Keys) -> None:
    keys.create("shop", ("read", "rank", "read"))
    (key,) = keys.live()
    assert (key.name, key.scopes, key.timestamp) == ("shop", ("read", "rank"), 7)
    assert keys.create("all").key.scopes == tuple(SCOPES)


def test_a_revoked_key_is_revoked_for_all_processes(keys: Keys, store: SqliteStore) -> None:
    old, new = keys.create("shop"), keys.create("shop")
    assert keys.revoke(old.key.id) == old.key
    assert keys.live() == Keys(store, lambda: 8).live() == [new.key]
    with pytest.raises(UnknownName, match=f"unknown key '{old.key.id}'"):
        keys.revoke(old.key.id)


def test_a_name_has_at_most_two_keys(keys: Keys) -> None:
    first, second = keys.create("shop"), keys.create("shop")
    with pytest.raises(
        InvalidInput, match=f"may have 2 live keys; 'shop' has {first.key.id}, {second.key.id}. Revoke one"
    ):
        keys.create("shop")
    keys.revoke(first.key.id)
    keys.create("shop")


def test_concurrent_changes_of_keys_are_not_lost(store: SqliteStore) -> None:
    one, other = Keys(store, lambda: 1), Keys(store, lambda: 2)
    made = [maker.create(f"{n}").key for n in range(5) for maker in (one, other)]
    assert one.live() == other.live() == made


@pytest.mark.parametrize(("name", "scopes"), [("", ("read",)), ("  ", ("read",)), ("shop", ())])
def test_a_key_needs_a_name_and_a_scope(keys: Keys, name: str, scopes: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="a key needs a name and at least one scope"):
        keys.create(name, scopes)


def test_an_unknown_scope_is_refused(keys: Keys) -> None:
    with pytest.raises(UnknownName, match="unknown scope 'raed'; did you mean 'read'"):
        keys.create("shop", ("rank", "raed"))
    assert keys.live() == []


def test_a_store_gets_a_first_key_only_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(store=str(tmp_path / "store.db"))
    first = first_key(settings)
    assert first is not None
    assert first.key.scopes == tuple(SCOPES)
    assert (first_key(settings), caplog.text) == (None, "")
    with closing(SqliteStore(settings.store)) as store:
        Keys(store, lambda: 7).revoke(first.key.id)
    assert first_key(settings) is None
    assert "All keys are revoked, so every request is refused. Create one with `glb store keys create`." in caplog.text
    with closing(SqliteStore(settings.store)) as store:
        assert Keys(store, lambda: 7).live() == []


def test_concurrent_starts_create_one_first_key(new_address: Callable[[], str]) -> None:
    for _ in range(3):
        settings = Settings(store=new_address())
        with ThreadPoolExecutor(4) as pool:
            created = [new.key for new in pool.map(first_key, [settings] * 4) if new is not None]
        with closing(open_store(settings.store, durability="process")) as store:
            assert Keys(store, lambda: 7).live() == created
        assert len(created) == 1


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["store", "keys", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_the_command_creates_lists_and_revokes_keys(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    text = run("create", "shop", "--scope", "read", "--store", str(path)).strip()
    listed = run("list", "--store", str(path))
    (key,) = re.findall(r"([0-9a-f]{8}) +shop +read ", listed)
    assert text not in listed
    assert run("revoke", key, "--store", str(path)) == f"Revoked key {key} of shop\n"
    assert key not in run("list", "--store", str(path))


def test_a_key_can_be_created_before_the_first_start(new_address: Callable[[], str]) -> None:
    address = new_address()
    text = run("create", "shop", "--store", address).strip()
    with closing(open_store(address, durability="process")) as store:
        (key,) = Keys(store, lambda: 7).live()
    assert find_key(digest_of(text.encode()), [key]) == key
    assert key.scopes == ("rank", "reward", "read")


def test_listing_creates_no_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no store .*none.db; name the file that `glb serve --store` uses"):
        run("list", "--store", str(tmp_path / "none.db"))
    assert not (tmp_path / "none.db").exists()
