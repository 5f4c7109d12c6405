import gzip
import lzma
from pathlib import Path

import pytest

from glbandits import InvalidInput
from glbandits.lab import write_simulated_news
from glbandits.lab.paper.data_files import find_data
from glbandits.lab.paper.whole_paper import NAMES

ALL = NAMES
FOREST_LINE = b",".join([b"1"] * 55) + b"\n"


def test_files_are_recognised_by_their_first_line(tmp_path: Path) -> None:
    (news,) = write_simulated_news(tmp_path / "news", days=1, events_per_day=288)
    for name, opener in (("plain", Path.open), ("gzip", gzip.open), ("xz", lzma.open)):
        forest = tmp_path / name
        with opener(forest, "wb") as file:
            file.write(FOREST_LINE)
        assert find_data([news, forest], ALL) == (forest, (news,))
    assert find_data([], ALL) == (None, ())


def test_folder_is_searched_for_data_files(tmp_path: Path) -> None:
    files = write_simulated_news(tmp_path / "news", days=2, events_per_day=288)  # with SIMULATED.txt
    (tmp_path / "news" / "README").write_text("About these files\n")
    (tmp_path / "news" / "empty").touch()
    (tmp_path / "news" / "older").mkdir()
    assert find_data([tmp_path / "news"], ["runtime"]) == (None, files)


def test_unused_data_are_rejected(tmp_path: Path) -> None:
    (news,) = write_simulated_news(tmp_path / "both", days=1, events_per_day=288)
    forest = tmp_path / "both" / "covtype.data"
    forest.write_bytes(FOREST_LINE)
    assert find_data([tmp_path / "both"], ["forest-2"]) == (forest, (news,))
    with pytest.raises(InvalidInput, match="R6A data, which forest-1 does"):
        find_data([forest, news], ["forest-1"])
    with pytest.raises(InvalidInput, match="forest cover data, which news, cost does not"):
        find_data([forest], ["news", "cost"])
    with pytest.raises(InvalidInput, match="which simulation does not use"):
        find_data([tmp_path / "both"], ["simulation"])


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\x1f\x8bdamaged", b"\xfd7damaged", bytes(300_000)])
def test_unknown_data_file_is_rejected_by_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_bytes(content)
    with pytest.raises(InvalidInput, match="other.csv"):
        find_data([tmp_path / "other.csv"], ALL)
