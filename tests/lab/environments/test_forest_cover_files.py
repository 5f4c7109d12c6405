"""Reading and caching of forest cover files, and fingerprints of their content."""

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from glbandits.lab import ForestCover
from glbandits.lab.environments import forest_cover as module
from tests.lab.environments.forest_cover_files import EVERY, groups, lines, text
from tests.lab.environments.rounds import all_rounds

pytestmark = pytest.mark.usefixtures("clear_file_cache")


# Files


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("covtype.data", bytes),
        ("covtype.data.gz", gzip.compress),
        ("covtype.data.xz", lzma.compress),
        ("x", lzma.compress),
    ],
)
@pytest.mark.parametrize(("scenario", "version"), EVERY)
def test_compressed_files_are_read(
    tmp_path: Path, clusters: Path, name: str, pack: Callable[[bytes], bytes], scenario: int, version: str
) -> None:
    table, labels = lines(), groups()
    (tmp_path / name).write_bytes(pack(text(table).encode()))
    problem = ForestCover(scenario=scenario, version=version, data=tmp_path / name, clusters=clusters)
    pays = (table[:, 54] == 1).astype(float)
    np.testing.assert_array_equal(problem.means(), [pays[labels == arm].mean() for arm in range(32)])
    features = np.hstack(
        [stats.zscore(table[:, :10]), table[:, 10:54], table[:, 54:] if "as" in version else pays[:, None] ** 0]
    )
    rounds = all_rounds(problem, 20, seed=1)
    for arm in range(32):
        mine, paid = features[labels == arm], pays[labels == arm]
        if scenario == 1:
            np.testing.assert_allclose(rounds.arms[:, arm], np.tile(mine[:, :10].mean(axis=0), (20, 1)), atol=1e-12)
        else:
            distance = np.abs(rounds.arms[:, arm, np.newaxis] - mine).max(axis=2)
            assert distance.min(axis=1).max() < 1e-12
            np.testing.assert_array_equal(rounds.expected[:, arm], paid[distance.argmin(axis=1)])


def test_constant_quantity_becomes_zeros(covtype: Path, clusters: Path) -> None:
    table = lines()
    table[:, 3] = 50
    covtype.write_text(text(table))
    assert (all_rounds(ForestCover(data=covtype, clusters=clusters), 1, 0).arms[..., 3] == 0.0).all()


@pytest.mark.parametrize(("scenario", "version"), EVERY)
def test_kmeans_runs_without_a_clusters_file(covtype: Path, tmp_path: Path, scenario: int, version: str) -> None:
    pytest.importorskip("sklearn")
    problem = ForestCover(scenario=scenario, version=version, data=covtype)
    found = problem.labels()
    if scenario == 1:
        pairs = set(zip(found.tolist(), groups().tolist(), strict=True))
        assert len(pairs) == 32  # the same groups, numbered differently
    np.savez_compressed(tmp_path / "found.npz", labels=found)
    again = ForestCover(scenario=scenario, version=version, data=covtype, clusters=tmp_path / "found.npz")
    assert again.fingerprint() == problem.fingerprint()
    module._labels.cache_clear()
    np.testing.assert_array_equal(problem.labels(), found)


def test_changed_file_is_read_again(covtype: Path, clusters: Path) -> None:
    problem = ForestCover(data=covtype, clusters=clusters)
    before = problem.fingerprint()
    table = lines()
    table[0, 0] += 1000
    covtype.write_text(text(table))
    assert problem.fingerprint() != before


# Fingerprints


def test_fingerprint_depends_on_the_data_not_the_path(covtype: Path, clusters: Path, tmp_path: Path) -> None:
    def fingerprint(**settings: object) -> str:
        return ForestCover(**({"data": covtype, "clusters": clusters} | settings)).fingerprint()  # type: ignore[arg-type]

    (tmp_path / "copy.gz").write_bytes(gzip.compress(covtype.read_bytes()))
    one_more = np.vstack([lines(), lines()[:1]])
    (tmp_path / "other").write_text(text(one_more))
    np.savez(tmp_path / "longer.npz", labels=np.append(groups(), groups()[0]))
    swapped = groups()
    swapped[[0, 1]] = swapped[[1, 0]]
    np.savez(tmp_path / "swapped.npz", labels=swapped)
    for scenario in (1, 2):
        mine = fingerprint(scenario=scenario)
        assert mine == fingerprint(scenario=scenario, data=tmp_path / "copy.gz")
        assert mine != fingerprint(scenario=scenario, data=tmp_path / "other", clusters=tmp_path / "longer.npz")
        assert mine != fingerprint(scenario=scenario, clusters=tmp_path / "swapped.npz")
        assert str(tmp_path) not in mine
        assert " at 0x" not in mine
    assert fingerprint(scenario=1) == fingerprint(scenario=1, version="as-published")
    assert len({ForestCover(scenario=s, version=v).fingerprint() for s, v in EVERY}) == 3
    assert len({fingerprint(scenario=s, version=v).split("sha256:")[0] for s, v in EVERY}) == 3


def test_fingerprint_of_the_sample() -> None:
    """Change this together with the sample, and add a line to the changelog: results change too."""
    assert [ForestCover(scenario=s, version=v).fingerprint()[-64:][:12] for s, v in EVERY] == FINGERPRINTS


FINGERPRINTS = ["c3662b4cc69d", "6d515cf037e8", "f74b87092252"]
