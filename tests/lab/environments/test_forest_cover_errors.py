"""Errors of forest cover: invalid settings and files."""

import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from glbandits import InvalidInput, UnknownName
from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import MissingExtra
from glbandits.lab import ForestCover
from tests.lab.environments.forest_cover_files import groups, lines, text

pytestmark = pytest.mark.usefixtures("clear_file_cache")


def test_invalid_settings_are_rejected(covtype: Path, clusters: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="scenario must be a whole number of at least 1"):
        ForestCover(scenario=3)
    with pytest.raises(UnknownName, match="unknown version 'published'"):
        ForestCover(version="published")
    with pytest.raises(InvalidInput, match="clusters needs data"):
        ForestCover(clusters=clusters)
    with pytest.raises(InvalidInput, match=f"data must be a file; there is none at {tmp_path}/no"):
        ForestCover(data=tmp_path / "no")
    with pytest.raises(InvalidInput, match=f"clusters must be a file; there is none at {tmp_path}"):
        ForestCover(data=covtype, clusters=tmp_path)
    with pytest.raises(InvalidInput, match="data must be the path of a file; got 7"):
        ForestCover(data=7)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="labels needs data"):
        ForestCover().labels()
    problem = ForestCover(data=covtype, clusters=clusters)
    covtype.unlink()
    with pytest.raises(InvalidInput, match=f"data must be a file; there is none at {covtype}"):
        next(iter(problem.rounds(1, 0)))


def with_cell(line: int, column: int, cell: str) -> bytes:
    rows = [row.split(",") for row in text(lines()).splitlines()]
    rows[line - 1][column - 1] = cell
    return "\n".join(map(",".join, rows)).encode()


GOOD = text(lines()).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must have lines of 55 integers; got a table of shape"),
        (GOOD.replace(b"\n", b",1\n"), r"must have lines of 55 integers; got a table of shape \(224, 56\)"),
        (with_cell(9, 1, "40000"), "could not convert string '40000'"),
        (with_cell(4, 55, "8"), "row 4: columns 11 to 14"),
    ],
)
def test_invalid_data_file_is_rejected(covtype: Path, clusters: Path, content: bytes, message: str) -> None:
    covtype.write_bytes(content)
    with pytest.raises(InvalidInput, match=message) as refused:
        ForestCover(data=covtype, clusters=clusters).means()
    assert str(covtype) in str(refused.value)


def npy(array: Ints) -> bytes:
    file = BytesIO()
    np.save(file, array)
    return file.getvalue()


def saved(path: Path, **arrays: Floats | Ints) -> None:
    np.savez(path, **arrays)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: saved(path, labels=groups()[:-1]), r"224 integers .* got int64 of shape \(223,\)"),
        (lambda path: saved(path, labels=np.where(groups() == 9, 3, groups())), r"have none in clusters \[9\]"),
        (lambda path: path.write_bytes(npy(groups())), "it cannot be read as one"),
    ],
)
def test_invalid_clusters_file_is_rejected(
    covtype: Path, clusters: Path, write: Callable[[Path], object], message: str
) -> None:
    write(clusters)
    with pytest.raises(InvalidInput, match=message) as refused:
        ForestCover(data=covtype, clusters=clusters).means()
    assert str(clusters) in str(refused.value)


def test_too_few_patches_for_kmeans_are_rejected(covtype: Path) -> None:
    pytest.importorskip("sklearn")
    covtype.write_text(text(lines()[:31]))
    with pytest.raises(InvalidInput, match=f"{covtype} must have at least 32 lines, one for each cluster; got 31"):
        ForestCover(data=covtype).means()
    covtype.write_text(text(np.repeat(lines()[:4], 10, axis=0)))
    with pytest.raises(
        InvalidInput, match=f"each of the 32 clusters needs a member; labels by KMeans of {covtype} have none"
    ):
        ForestCover(data=covtype).means()


def test_missing_scikit_learn_is_reported(covtype: Path, clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(
        MissingExtra, match=r"needs scikit-learn. In a clone of glbandits, run pip install .*, or set clusters"
    ):
        ForestCover(data=covtype).means()
    assert ForestCover(data=covtype, clusters=clusters).means().shape == (32,)
