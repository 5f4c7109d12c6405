import gzip
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits import InvalidInput
from glbandits.lab.environments.r6a import Display, read_displays

USER = b"|user 2:0.1 3:0.2 4:0.3 5:0.2 6:0.2 1:1.000000 "
A = b"|11 2:0.2 3:0.3 4:0.4 5:0.5 6:0.6 1:1.000000"
B = b"|22 2:0.7 3:0.1 4:0.1 5:0.1 6:0.0 1:1.000000"
OTHER = b"|33 2:0.7 3:0.1 4:0.1 5:0.1 6:0.0 1:1.000000 7:1.0"
POOL = A + b" " + B
GOOD = b"300 11 1 " + USER + POOL


A_FEATURES = (1.0, 0.2, 0.3, 0.4, 0.5, 0.6)
"""Of article A, by id: feature 1, the last in the file, comes first."""


def displays_in(*files: Path) -> list[Display]:
    return [display for batch in read_displays(files) for display in batch]


def file_of(folder: Path, text: bytes, name: str = "log") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


@pytest.mark.parametrize("name", ["log", "log.gz"])
def test_two_events_match_a_manual_computation(tmp_path: Path, name: str) -> None:
    text = GOOD + b"\n" + b"600 22 0 " + USER + B + b" " + OTHER + b"\n"
    (batch,) = read_displays([file_of(tmp_path, text, name)])
    assert batch == [(300, 11, 1, A_FEATURES), (600, 22, 0, (1.0, 0.7, 0.1, 0.1, 0.1, 0.0))]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"300 11 |user 1:1 " + POOL,
        b"300 11 1 " + A + b" " + B,
        b"300 11 1 " + USER,
        b"300 11 1 " + USER + A + b" 7:1:1",
        b"300 11.5 1 " + USER + POOL,
        b"300 11 2 " + USER + POOL,
        b"1000000000000000000 11 1 " + USER + POOL,
        b"300 11 1 " + USER + A.replace(b"0.5", b"nan"),
        b"300 12 1 " + USER + POOL,
    ],
)
def test_malformed_line_is_left_out(tmp_path: Path, line: bytes) -> None:
    path = file_of(tmp_path, b"\n".join([GOOD, line, GOOD, line, line, GOOD]))
    assert displays_in(path) == [(300, 11, 1, A_FEATURES)] * 3


def test_files_that_are_not_r6a_are_rejected_at_once(tmp_path: Path) -> None:
    good = file_of(tmp_path, GOOD, "good")
    for text in (b"", b"a\nb", b"?\n" * 1000 + GOOD):
        for name in ("log", "log.gz"):
            with pytest.raises(InvalidInput, match=f"{name} must be an R6A file; none of its first 1000 lines is"):
                read_displays([good, file_of(tmp_path, text, name)])
    with pytest.raises(InvalidInput, match=r"cannot be read.*No such file"):
        read_displays([tmp_path / "nowhere"])
    with pytest.raises(InvalidInput, match="must be a list of paths; got one path"):
        read_displays(str(good))
    with pytest.raises(InvalidInput, match="at least one R6A file; got none"):
        read_displays([])


def test_damaged_gzip_file_is_rejected(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [GOOD.replace(b"0.1 3:", b"%.6f 3:" % rng.random()) + b"\n" for _ in range(20_000)]
    path = file_of(tmp_path, b"".join(lines), "log.gz")
    zipped = path.read_bytes()
    for bad in (zipped[:-9], zipped[: len(zipped) // 2], zipped[:-8] + b"12345678", zipped + b"more"):
        path.write_bytes(bad)
        with pytest.raises(InvalidInput, match="log.gz must be a complete R6A file"):
            displays_in(path)
    path.write_bytes(zipped + zipped)  # concatenated gzip files are a valid gzip file
    assert len(displays_in(path)) == 40_000


NUMBERS = st.integers(0, 10**18 - 1)
FEATURES = st.tuples(*[st.integers(-(10**7), 10**7).map(lambda millionths: millionths / 1e6)] * 6)


@st.composite
def events_to_write(draw: st.DrawFn) -> list[tuple[int, int, int, dict[int, tuple[float, ...]]]]:
    pools = draw(st.lists(st.dictionaries(NUMBERS, FEATURES, min_size=1, max_size=5), min_size=1, max_size=3))
    events = []
    for pool in draw(st.lists(st.sampled_from(pools), min_size=1, max_size=12)):
        events.append((draw(NUMBERS), draw(st.sampled_from(sorted(pool))), draw(st.integers(0, 1)), pool))
    return events


@given(events_to_write(), st.permutations(range(1, 7)), st.booleans())
@settings(max_examples=50, deadline=None)
def test_events_survive_writing_and_reading(
    events: list[tuple[int, int, int, dict[int, tuple[float, ...]]]], order: list[int], zipped: bool
) -> None:
    lines = []
    for timestamp, article, click, pool in events:
        listed = [
            b"|%d " % name + b" ".join(b"%d:%.6f" % (key, features[key - 1]) for key in order)
            for name, features in pool.items()
        ]
        lines.append(b"%d %d %d " % (timestamp, article, click) + USER + b" ".join(listed) + b"\n")
    with tempfile.TemporaryDirectory() as folder:
        read = displays_in(file_of(Path(folder), b"".join(lines), "log.gz" if zipped else "log"))
    assert read == [(timestamp, article, click, pool[article]) for timestamp, article, click, pool in events]


def peak_of_reading(path: Path) -> int:
    tracemalloc.start()
    events = sum(len(batch) for batch in read_displays([path]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert events > 0
    return peak


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    block = (GOOD + b" " + b" ".join([B] * 18) + b"\n") * 1000
    small, large = tmp_path / "small.gz", tmp_path / "large.gz"
    for path, times in ((small, 5), (large, 50)):
        with gzip.open(path, "wb", compresslevel=1) as file:
            for _ in range(times):
                file.write(block)
    peak_of_reading(small)
    assert peak_of_reading(large) < 1.1 * peak_of_reading(small) < 16 * 2**20
