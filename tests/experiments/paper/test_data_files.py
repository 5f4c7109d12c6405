import gzip
import lzma
from pathlib import Path

import pytest

from glbandits import InvalidInput
from glbandits.environments import write_simulated_news
from glbandits.experiments.paper.data_files import DataFiles, find_data

FOREST_LINE = b",".join([b"1"] * 55) + b"\n"


def test_files_are_recognised_by_their_first_line(tmp_path: Path) -> None:
    (news,) = write_simulated_news(tmp_path / "news", days=1, events_per_day=288)
    for name, opener in (("plain", Path.open), ("gzip", gzip.open), ("xz", lzma.open)):
        forest = tmp_path / name
        with opener(forest, "wb") as file:
            file.write(FOREST_LINE)
        assert find_data([news, forest]) == DataFiles(forest, (news,))
    assert find_data([]) == DataFiles()


def test_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    files = write_simulated_news(tmp_path / "news", days=2, events_per_day=288)
    (tmp_path / "news" / "SIMULATED.txt").unlink()
    assert find_data([tmp_path / "news"]) == DataFiles(None, files)


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\x1f\x8bdamaged", b"\xfd7damaged", bytes(300_000)])
def test_other_files_are_refused_with_their_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_bytes(content)
    with pytest.raises(InvalidInput, match="other.csv"):
        find_data([tmp_path / "other.csv"])


def test_two_files_of_forest_cover_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(FOREST_LINE)
    with pytest.raises(InvalidInput, match="takes one file of forest cover"):
        find_data([tmp_path / "one", tmp_path / "two"])
