from pathlib import Path

import pytest

from glbandits.common.atomic_files import atomic_path, write_atomically


def test_file_is_replaced_and_no_temporary_file_remains(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    write_atomically(str(target), b"new")
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


def test_old_file_is_visible_until_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with atomic_path(target) as temporary:
        temporary.write_bytes(b"new")
        assert temporary.parent == target.parent
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("is_folder", [False, True])
def test_error_removes_what_was_written_and_keeps_the_target(tmp_path: Path, is_folder: bool) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"old")

    def write() -> None:
        with atomic_path(target) as temporary:
            if is_folder:
                temporary.mkdir()
                (temporary / "inside").write_bytes(b"half")
            else:
                temporary.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_folder_appears_complete(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "folder") as temporary:
        temporary.mkdir()
        (temporary / "inside").write_bytes(b"content")
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["inside"]


def test_missing_parent_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "missing" / "file", b"new")
