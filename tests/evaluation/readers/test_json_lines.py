import gzip
import json
from pathlib import Path

import pytest

from glbandits import InvalidInput, LinUcb
from glbandits.evaluation import Columns, CrossedArms, open_log, train
from glbandits.evaluation.readers.table_files import read_json_lines

ROWS = [
    {"arm": "a", "reward": 0, "propensity": 0.5, "user": {"age": 20, "tags": ["new"]}},
    {"arm": "b", "reward": 1, "propensity": 0.5, "user": {"age": 40, "tags": []}},
    {"arm": "b", "reward": 1, "propensity": 0.5, "user": {"age": None, "tags": ["new", "red"]}},
]


def written(folder: Path, name: str = "log.jsonl") -> Path:
    (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return folder / name


def test_json_lines_have_nested_fields(tmp_path: Path) -> None:
    log = read_json_lines(written(tmp_path), Columns(context=("user.age", "user.tags"))).read()
    assert isinstance(log.arms, CrossedArms)
    assert log.arms.contexts.tolist() == [[-1, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0, 1, 1, 1, 0]]
    bandit = train(log, LinUcb())
    assert bandit.choose([{"arm": "a", "user": ROWS[0]["user"]}, {"arm": "b", "user": ROWS[0]["user"]}]) == 1


@pytest.mark.parametrize("more", [{"c": 1}, {"c": {"age": 3}}, {"EventId": "e"}, {"EventId": "e", "RewardValue": 1.0}])
def test_columns_with_names_of_dsjson_are_no_dsjson(tmp_path: Path, more: dict[str, object]) -> None:
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(row | more)}\n" for row in ROWS))
    assert len(open_log(tmp_path / "log.jsonl")) == 3


@pytest.mark.parametrize("columns", [None, Columns()])
def test_open_log_reads_json_lines_of_a_table(tmp_path: Path, columns: Columns | None) -> None:
    for name in ("log.jsonl", "log.ndjson", "log.json"):
        assert len(open_log(written(tmp_path, name), columns)) == 3


@pytest.mark.parametrize("file_format", ["auto", "json-lines"])
def test_open_log_reads_json_lines(tmp_path: Path, file_format: str) -> None:
    assert len(open_log(written(tmp_path), format=file_format)) == 3


def test_unknown_fields_of_json_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the table could not be read"):
        read_json_lines(written(tmp_path), Columns(context=("user.height",)))
    with pytest.raises(InvalidInput, match="the table has no column 'age'"):
        read_json_lines(written(tmp_path), Columns(context=("age",)))


def test_json_array_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(json.dumps(ROWS, indent=1))
    with pytest.raises(InvalidInput, match="log.json contains a JSON array"):
        open_log(tmp_path / "log.json", Columns())


def test_compressed_lines_are_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert len(open_log(path)) == 3


@pytest.mark.parametrize("content", [b"", b"\n \n", b"5\n", bytes(range(256)), '{"arm": "a"}'.encode("utf-16")])
def test_file_without_objects_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log.jsonl").write_bytes(content)
    with pytest.raises(InvalidInput, match="^log.jsonl must have one JSON object per line"):
        open_log(tmp_path / "log.jsonl")
