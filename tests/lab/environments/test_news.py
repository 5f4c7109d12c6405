import gzip
import os
import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from glbandits import InvalidInput
from glbandits.lab import News, write_simulated_news
from glbandits.lab.environments import Environment
from glbandits.lab.environments import news as module
from glbandits.lab.environments import rounds as rounds_module
from glbandits.lab.environments.r6a import Display, is_simulated, read_displays
from tests.lab.environments.rounds import all_rounds

USER = b"|user 2:0.1 3:0.2 4:0.3 5:0.2 6:0.2 1:1.000000 "
A = b"|11 2:0.2 3:0.3 4:0.4 5:0.5 6:0.6 1:1.000000 "
B = b"|22 2:0.7 3:0.1 4:0.1 5:0.1 6:0.0 1:1.000000 "
C = b"|15 2:0.0 3:0.0 4:0.0 5:0.0 6:1.0 1:1.000000 "
OTHER = b"|33 2:0.7 3:0.1 4:0.1 5:0.1 6:0.0 1:1.000000 7:1.0 "

LOG = b"\n".join(
    [
        b"300 11 1 " + USER + A + B + C + OTHER,
        b"300 11 0 " + USER + A + B + C + OTHER,
        b"300 22 0 " + USER + A + B + C + OTHER,
        b"300 33 1 " + USER + A + B + C + OTHER,  # displayed, but left out because of its features
        b"600 33 1 " + USER + A + OTHER,  # so this timestamp has no arm
        b"900 22 1 " + USER + A + B,
        b"900 15 0 " + USER + B + C,  # another pool at the same time: the arms are those of both
        b"900 22 1 " + USER + B + C,
        b"900 22 0 " + USER + A + B,
        b"not an event",
    ]
)


@pytest.fixture
def problem(tmp_path: Path) -> News:
    path = tmp_path / "log"
    path.write_bytes(LOG)
    return News(files=(path,))


def test_rounds_match_a_manual_computation(problem: News) -> None:
    rounds = all_rounds(problem, 2, seed=1)
    assert rounds.counts.tolist() == [2, 2]
    # At 300, 11 was clicked once in two displays and 22 never; 15 was not displayed. At 900, 15 was never clicked and
    # 22 twice in three. Arms in the order of ids, features in the order of theirs.
    np.testing.assert_array_equal(rounds.expected, [[1 / 2, 0.0], [0.0, 2 / 3]])
    np.testing.assert_array_equal(rounds.payoffs, rounds.expected)
    a, b, c = [1.0, 0.2, 0.3, 0.4, 0.5, 0.6], [1.0, 0.7, 0.1, 0.1, 0.1, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    np.testing.assert_array_equal(rounds.arms, [[a, b], [c, b]])
    assert (problem.length(), problem.dim) == (2, 6)
    assert not problem.simulated
    assert isinstance(problem, Environment)


def test_only_the_noise_depends_on_the_seed(problem: News) -> None:
    first, again, second = (all_rounds(problem, 2, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.noise, again.noise)
    assert (first.noise != second.noise).all()
    np.testing.assert_array_equal(first.arms, second.arms)
    np.testing.assert_array_equal(first.noise[:1], all_rounds(problem, 1, seed=1).noise)


def test_horizon_beyond_the_files_is_rejected(problem: News) -> None:
    with pytest.raises(InvalidInput, match="horizon must be at most 2"):
        problem.rounds(3, seed=1)


def test_log_without_arms_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"600 33 1 " + USER + OTHER)
    with pytest.raises(InvalidInput, match="at least one event that displays an article"):
        News(files=(tmp_path / "log",)).length()
    (tmp_path / "log").write_bytes(b"")
    with pytest.raises(InvalidInput, match="must be an R6A file"):
        News(files=(tmp_path / "log",))


def test_fingerprint_depends_on_the_rounds_not_the_files(problem: News, tmp_path: Path) -> None:
    (tmp_path / "log.gz").write_bytes(gzip.compress(LOG + b"\nanother line that is no event"))
    assert News(files=(tmp_path / "log.gz",)).fingerprint() == problem.fingerprint()
    (tmp_path / "other").write_bytes(LOG.replace(b"300 22 0", b"300 22 1"))
    assert News(files=(tmp_path / "other",)).fingerprint() != problem.fingerprint()
    assert len(problem.fingerprint()) == 64


def test_files_are_read_again_only_if_they_change(problem: News, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []

    def counted(files: Iterable[Path]) -> Iterator[list[Display]]:
        reads.append(1)
        return read_displays(files)

    monkeypatch.setattr(module, "read_displays", counted)
    for news in (problem, problem, pickle.loads(pickle.dumps(problem))):
        assert news.length() == 2
        all_rounds(news, 2, seed=1)
    assert len(reads) == 1
    path = Path(problem.files[0])
    path.write_bytes(LOG.replace(b"900", b"300"))
    os.utime(path, (1, 1))
    assert problem.length() == 1
    assert len(reads) == 2
    path.unlink()
    with pytest.raises(InvalidInput, match="files must be a file; there is none at .*log"):
        problem.length()


def test_files_are_merged_in_time_order(problem: News, tmp_path: Path) -> None:
    lines = LOG.split(b"\n")
    paths = (tmp_path / "late", tmp_path / "early")
    for path, part in zip(paths, (lines[5:], lines[:5]), strict=True):
        path.write_bytes(b"\n".join(part))
    assert News(files=paths).fingerprint() == problem.fingerprint()


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return write_simulated_news(tmp_path_factory.mktemp("news"), days=2, events_per_day=5760, seed=3)


def test_rounds_match_a_simple_implementation(simulated: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    clicks: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    features: dict[int, list[float]] = {}
    for path in simulated:
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            head, *parts = (part.split() for part in line.split("|"))
            if not all(":" in part[-1] for part in parts):
                continue  # truncated in the middle
            articles = {part[0]: dict(field.split(":") for field in part[1:]) for part in parts[1:]}
            if len(head) == 3 and head[1] in articles and set(articles[head[1]]) == set("123456"):
                clicks[int(head[0])][int(head[1])].append(int(head[2]))
                features[int(head[1])] = [float(articles[head[1]][key]) for key in "123456"]
    problem = News(files=simulated)
    monkeypatch.setattr(rounds_module, "CHUNK_SIZE", 20_000)
    rounds = all_rounds(problem, problem.length(), seed=0)
    assert problem.length() == len(clicks)
    for t, moment in enumerate(sorted(clicks)):
        arms = sorted(clicks[moment])
        assert rounds.counts[t] == len(arms)
        np.testing.assert_array_equal(rounds.arms[t, : len(arms)], [features[arm] for arm in arms])
        np.testing.assert_allclose(rounds.expected[t, : len(arms)], [np.mean(clicks[moment][arm]) for arm in arms])


def test_chunk_size_does_not_change_the_rounds(simulated: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    problem = News(files=simulated)
    uncut = all_rounds(problem, 500, seed=4)
    monkeypatch.setattr(rounds_module, "CHUNK_SIZE", 3000)
    assert len(list(problem.rounds(500, seed=4))) > 10
    for name in ("arms", "counts", "expected", "noise"):
        np.testing.assert_array_equal(getattr(uncut, name), getattr(all_rounds(problem, 500, seed=4), name))


def test_simulated_files_are_labelled(simulated: tuple[Path, ...], problem: News, tmp_path: Path) -> None:
    note = (simulated[0].parent / "SIMULATED.txt").read_text()
    assert note.startswith("These files are SIMULATED.")
    assert all(path.name in note for path in simulated)
    moved = tmp_path / "moved.txt"
    moved.write_bytes(gzip.decompress(simulated[0].read_bytes()))
    assert News(files=(moved,)).simulated
    assert News(files=(problem.files[0], simulated[1])).simulated
    assert not is_simulated(problem.files[0])


def test_simulated_files_never_overwrite_real_ones(problem: News, tmp_path: Path) -> None:
    (first,) = write_simulated_news(tmp_path, days=1, events_per_day=288)
    write_simulated_news(tmp_path, days=1, events_per_day=576)
    real = first.read_bytes()
    first.write_bytes(Path(problem.files[0]).read_bytes())
    with pytest.raises(InvalidInput, match="20090501.gz is not simulated"):
        write_simulated_news(tmp_path, days=1, events_per_day=288)
    assert first.read_bytes() == LOG != real
    with pytest.raises(InvalidInput, match="days must be a whole number of at least 1"):
        write_simulated_news(tmp_path, days=32)
    with pytest.raises(InvalidInput, match="events_per_day must be a whole number"):
        write_simulated_news(tmp_path, events_per_day=10)
