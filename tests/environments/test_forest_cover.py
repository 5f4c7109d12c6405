import gzip
import lzma
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from glbandits import InvalidInput, Uniform, UnknownName
from glbandits.environments import Environment, ForestCover
from glbandits.environments import forest_cover as module
from glbandits.errors import MissingExtra
from glbandits.records import Floats, Ints
from glbandits.simulation import simulate
from tests.environments.rounds import all_rounds

EVERY = [(1, "clean"), (2, "clean"), (2, "as-published")]
NAMES = ("arms", "counts", "expected", "noise", "values")


@pytest.fixture(autouse=True)
def _nothing_read_yet() -> Iterator[None]:
    yield
    for function in (module._arms_of_file, module._patches, module._labels):
        function.cache_clear()


def lines(members: int = 7, seed: int = 1) -> Ints:
    """Write a file like the real one: 32 well-separated groups of patches, in mixed order."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(32), members))
    table = np.zeros((len(group), 55), dtype=np.int64)
    table[:, :10] = 200 * (group[:, np.newaxis] >> np.arange(10) % 5 & 1) + rng.integers(-9, 10, (len(group), 10))
    table[np.arange(len(group)), 10 + rng.integers(0, 4, len(group))] = 1
    table[np.arange(len(group)), 14 + rng.integers(0, 40, len(group))] = 1
    table[:, 54] = np.where(rng.random(len(group)) < group / 31, 1, rng.integers(2, 8, len(group)))
    return table


def groups(members: int = 7, seed: int = 1) -> Ints:
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(32), members))


def text(table: Ints) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in table.tolist())


@pytest.fixture
def covtype(tmp_path: Path) -> Path:
    path = tmp_path / "covtype.data"
    path.write_text(text(lines()))
    return path


@pytest.fixture
def clusters(tmp_path: Path) -> Path:
    path = tmp_path / "clusters.npz"
    np.savez_compressed(path, labels=groups().astype(np.int8))
    return path


# The sample in the package


@pytest.mark.parametrize(
    ("scenario", "version", "highest", "lowest"),
    [(1, "clean", 0.57499, 0.00531), (2, "clean", 0.63407, 0.0), (2, "as-published", 0.77019, 0.0)],
)
def test_sample_has_the_means_of_the_complete_file(scenario: int, version: str, highest: float, lowest: float) -> None:
    problem = ForestCover(scenario=scenario, version=version)
    means = problem.means()
    assert isinstance(problem, Environment)
    assert means.shape == (32,)
    assert (means.max(), means.min()) == (pytest.approx(highest, abs=5e-6), pytest.approx(lowest, abs=5e-6))
    rounds = all_rounds(problem, 3, seed=1)
    assert rounds.arms.shape == (3, 32, problem.dim) == (3, 32, 10 if scenario == 1 else 55)
    assert (rounds.counts == 32).all()
    np.testing.assert_array_equal(rounds.values, np.tile(means, (3, 1)))


def test_scenario_1_has_the_same_centroids_in_all_rounds() -> None:
    problem = ForestCover(scenario=1)
    rounds = all_rounds(problem, 5000, seed=1)
    assert (rounds.arms == all_rounds(problem, 1, seed=2).arms[0]).all()
    np.testing.assert_array_equal(rounds.expected, rounds.values)
    lengths = np.linalg.norm(rounds.arms[0], axis=1)
    assert (lengths.min(), lengths.max()) == (pytest.approx(1.45, abs=0.01), pytest.approx(4.99, abs=0.01))
    assert stats.kstest(rounds.noise, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("version", ["clean", "as-published"])
def test_scenario_2_reward_is_the_label_of_the_member(version: str) -> None:
    problem = ForestCover(scenario=2, version=version)
    rounds = all_rounds(problem, 3000, seed=3)
    quantities, binaries, last = rounds.arms[..., :10], rounds.arms[..., 10:54], rounds.arms[..., 54]
    assert np.isin(binaries, (0.0, 1.0)).all()
    assert (binaries[..., :4].sum(axis=2) == 1).all()
    assert (binaries[..., 4:].sum(axis=2) == 1).all()
    assert np.abs(quantities).max() < 12
    if version == "clean":
        assert (last == 1.0).all()
    else:
        assert np.unique(last).tolist() == [1, 2, 3, 4, 5, 6, 7]
        np.testing.assert_array_equal(rounds.expected, last == 1.0)  # the label leaks through this feature
    rewards = [problem.noise.reward(e, u) for e, u in zip(rounds.expected[:, 5], rounds.noise, strict=True)]
    np.testing.assert_array_equal(rewards, rounds.expected[:, 5])
    # The members in the sample have the cluster's mean up to rounding; plus five standard errors of 3000 rounds.
    assert np.abs(rounds.expected.mean(axis=0) - problem.means()).max() < 0.5 / 300 + 5 * 0.5 / np.sqrt(3000)


@pytest.mark.parametrize("version", ["clean", "as-published"])
def test_sample_has_the_cluster_share_of_rewarded_members(version: str) -> None:
    part = module._arms_of_package(version)
    assert isinstance(part, module.Members)
    assert part.sizes.tolist() == [300] * 32
    paying = part.patches.rewards().reshape(32, 300).mean(axis=1)
    assert np.abs(paying - part.means).max() <= 0.5 / 300 + 1e-12


def test_sample_is_small_and_has_its_notice() -> None:
    folder = files("glbandits.environments")
    assert len((folder / module.PART).read_bytes()) < 1_500_000
    notice = " ".join((folder / "forest_cover_notice.txt").read_text(encoding="utf-8").split())
    assert (
        "Reuse of this database is unlimited with retention of copyright notice for "
        "Jock A. Blackard and Colorado State University." in notice
    )


def test_regret_uses_the_cluster_means() -> None:
    problem = ForestCover(scenario=2)
    result = simulate(Uniform(), problem, horizon=300, seeds=2, jobs=1, compiled=False)
    means = problem.means()
    assert result.choices is not None
    np.testing.assert_allclose(result.regret, np.cumsum(means.max() - means[result.choices], axis=1))


# Rounds


@pytest.mark.parametrize("chunk_size", [1, 40_000, 10**6])
@pytest.mark.parametrize(("scenario", "version"), EVERY)
def test_chunk_size_does_not_change_the_rounds(
    scenario: int, version: str, chunk_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = ForestCover(scenario=scenario, version=version)
    monkeypatch.setattr(module, "CHUNK_SIZE", 10**9)
    uncut = all_rounds(problem, 150, seed=4)
    monkeypatch.setattr(module, "CHUNK_SIZE", chunk_size)
    assert (len(list(problem.rounds(150, seed=4))) > 1) == (chunk_size < 10**6)
    cut = all_rounds(problem, 150, seed=4)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(uncut, name), getattr(cut, name))


@pytest.mark.parametrize(("scenario", "version"), EVERY)
def test_first_rounds_do_not_depend_on_the_horizon(scenario: int, version: str) -> None:
    problem = ForestCover(scenario=scenario, version=version)
    few, many = all_rounds(problem, 50, seed=1), all_rounds(problem, 2500, seed=1)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name)[:50])
    assert not (few.noise == all_rounds(problem, 50, seed=2).noise).any()


@pytest.mark.parametrize("scenario", [1, 2])
def test_chunks_have_bounded_size(scenario: int) -> None:
    assert next(iter(ForestCover(scenario=scenario).rounds(10**7, 0))).arms.nbytes <= 4 * 2**20


def test_members_are_drawn_uniformly(covtype: Path, clusters: Path) -> None:
    table, labels = lines(), groups()
    rounds = all_rounds(ForestCover(scenario=2, version="as-published", data=covtype, clusters=clusters), 3500, seed=5)
    shown = rounds.arms[:, :, :10] * table[:, :10].std(axis=0) + table[:, :10].mean(axis=0)
    counts = []
    for arm in range(32):
        distance = np.abs(shown[:, arm, np.newaxis] - table[labels == arm, :10]).max(axis=2)
        assert distance.min(axis=1).max() < 1e-9
        counts.append(np.bincount(distance.argmin(axis=1), minlength=7))
    assert stats.chisquare(np.ravel(counts), 500).pvalue > 1e-3


# The complete file


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


@pytest.mark.parametrize("ends", ["\r\n", "\n\n"])
def test_line_endings_and_empty_lines_do_not_matter(covtype: Path, clusters: Path, ends: str) -> None:
    before = ForestCover(scenario=2, data=covtype, clusters=clusters).fingerprint()
    covtype.write_bytes(text(lines()).replace("\n", ends).encode())
    assert ForestCover(scenario=2, data=covtype, clusters=clusters).fingerprint() == before


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


def test_threads_read_the_file_once(covtype: Path, clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, original = [], module.read_patches

    def counted(path: str) -> module.Patches:
        read.append(path)
        return original(path)

    monkeypatch.setattr(module, "read_patches", counted)
    problem = ForestCover(scenario=2, data=covtype, clusters=clusters)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda seed: all_rounds(problem, 5, seed), range(8)))
    assert read == [str(covtype)]


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


def test_repr_and_pickle(covtype: Path, clusters: Path) -> None:
    assert repr(ForestCover(scenario=2)) == "ForestCover(scenario=2, version='clean', data=None, clusters=None)"
    problem = ForestCover(scenario=2, data=covtype, clusters=clusters)
    assert problem == ForestCover(scenario=2, data=str(covtype), clusters=str(clusters))
    assert repr(problem) == f"ForestCover(scenario=2, version='clean', data='{covtype}', clusters='{clusters}')"
    assert pickle.loads(pickle.dumps(problem)) == problem


# Invalid input


def test_invalid_settings_are_rejected(covtype: Path, clusters: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="scenario must be a whole number of at least 1 and at most 2; got 3"):
        ForestCover(scenario=3)
    with pytest.raises(UnknownName, match="unknown version 'published'; did you mean 'as-published'"):
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


def gzipped(content: bytes) -> bytes:
    """Compress without a time stamp, which would change the test ids between processes."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must have a line of 55 integers for each patch; it is empty"),
        (b"\n\n", "must have a line of 55 integers for each patch; it is empty"),
        (b"\n \n", "line 2: 55 columns are needed; got 1"),
        (gzipped(b""), "it is empty"),
        (lzma.compress(b""), "it is empty"),
        (gzipped(GOOD)[:-2000], "Is the file complete?"),
        (gzipped(GOOD)[:5], "Is the file complete?"),
        (lzma.compress(GOOD)[:-2000], "Is the file complete?"),
        (lzma.compress(GOOD)[:6], "Is the file complete?"),
        (gzipped(GOOD)[:500] + b"\0" * 99 + gzipped(GOOD)[599:], "Is the file complete?"),
        (GOOD.replace(b"\n", b",1\n"), "line 1: 55 columns are needed; got 56"),
        (GOOD + b"1,2,3\n", "line 225: 55 columns are needed; got 3"),
        (GOOD[:-21], "line 224: 55 columns are needed; got 45"),
        (b"\n" + with_cell(3, 2, "12") + b"\n4", "line 226: 55 columns are needed; got 1"),
        (b"Elevation" + b",x" * 54 + b"\n" + GOOD, "line 1: column 1 must be an integer .*; got 'Elevation'"),
        (with_cell(5, 7, "2.5"), "line 5: column 7 must be an integer .*; got '2.5'"),
        (with_cell(224, 55, "nan"), "line 224: column 55 must be an integer .*; got 'nan'"),
        (with_cell(9, 1, ""), "line 9: column 1 must be an integer .*; got ''"),
        (with_cell(9, 1, "40000"), "line 9: column 1 must be an integer of at most 32767; got '40000'"),
        (with_cell(9, 1, "\xe9"), "line 9: column 1 must be an integer"),
        (
            with_cell(4, 12, "2"),
            "line 4: columns 11 to 14 must be one 1 and otherwise 0, for the wilderness area; got ",
        ),
        (with_cell(4, 54, "7"), "line 4: columns 15 to 54 must be one 1 and otherwise 0, for the soil type; got "),
        (with_cell(4, 55, "8"), "line 4: column 55 must be a cover type from 1 to 7; got 8"),
        (with_cell(4, 55, "0"), "line 4: column 55 must be a cover type from 1 to 7; got 0"),
        (with_cell(4, 3, "1_0"), "could not convert string '1_0'"),
        (gzipped(with_cell(1, 3, "1_0"))[:-99], "Is the file complete?"),
        (bytes(range(256)) * 9, "line 1: 55 columns are needed"),
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
        (
            lambda path: saved(path, labels=groups().astype(np.float64)),
            r"got float64 of shape \(224,\)",
        ),
        (lambda path: saved(path, labels=groups() + 1), "from 0 to 31; got 1 to 32"),
        (lambda path: saved(path, labels=groups() - 1), "from 0 to 31; got -1 to 30"),
        (lambda path: saved(path, labels=np.where(groups() == 9, 3, groups())), r"have none in clusters \[9\]"),
        (lambda path: saved(path, centers=np.zeros(3)), "it has no labels"),
        (lambda path: path.write_bytes(b""), "it cannot be read as one"),
        (lambda path: path.write_bytes(b"nothing of the sort"), "it cannot be read as one"),
        (lambda path: path.write_bytes(path.read_bytes()[:-30]), "it cannot be read as one"),
        (lambda path: path.write_bytes(npy(groups())), "it cannot be read as one"),
        (lambda path: np.savez(path, labels=np.array([{}])), "it cannot be read as one"),
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
    with pytest.raises(MissingExtra, match=r"needs scikit-learn. Run pip install .*, or set clusters"):
        ForestCover(data=covtype).means()
    assert ForestCover(data=covtype, clusters=clusters).means().shape == (32,)


# The real file, if it is available


@pytest.fixture(scope="module")
def real() -> Path:
    folder = os.environ.get("GLBANDITS_DATA")
    if not folder:
        pytest.skip("GLBANDITS_DATA is unset: it names the folder that holds forest_cover/covtype.data.xz")
    return Path(folder) / "forest_cover"


def test_sample_is_a_subset_of_the_complete_file(real: Path) -> None:
    data = real / "covtype.data.xz"
    one = ForestCover(scenario=1, clusters=real / "clusters_scenario1.npz", data=data)
    assert one.fingerprint() == ForestCover(scenario=1).fingerprint()
    for version, name in (("clean", "clusters_scenario2"), ("as-published", "clusters_scenario2_with_label")):
        two = ForestCover(scenario=2, version=version, data=data, clusters=real / f"{name}.npz")
        np.testing.assert_array_equal(two.means(), ForestCover(scenario=2, version=version).means())
        every, few = two._arms, module._arms_of_package(version)
        assert isinstance(every, module.Members)
        assert isinstance(few, module.Members)
        np.testing.assert_array_equal(few.centre, every.centre)
        np.testing.assert_array_equal(few.spread, every.spread)
        ends, few_ends = np.cumsum(every.sizes), np.cumsum(few.sizes)
        for arm in range(32):
            known = set(packed(every.patches.take(np.arange(ends[arm] - every.sizes[arm], ends[arm]))))
            assert known.issuperset(packed(few.patches.take(np.arange(few_ends[arm] - few.sizes[arm], few_ends[arm]))))
        rounds = all_rounds(two, 2000, seed=1)
        assert np.abs(rounds.expected.mean(axis=0) - two.means()).max() < 5 * 0.5 / np.sqrt(2000)


def packed(patches: module.Patches) -> list[tuple[int, ...]]:
    columns = (patches.quantities, patches.wilderness[:, None], patches.soil[:, None], patches.cover[:, None])
    return [tuple(row) for row in np.hstack(columns).tolist()]
