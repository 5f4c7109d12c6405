"""Rounds and rewards of forest cover, from the sample in the package and from files."""

import os
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from glbandits import Uniform
from glbandits.lab import ForestCover, simulate
from glbandits.lab.environments import Environment
from glbandits.lab.environments import forest_cover as module
from tests.lab.environments.forest_cover_files import groups, lines
from tests.lab.environments.rounds import all_rounds

pytestmark = pytest.mark.usefixtures("clear_file_cache")


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
    np.testing.assert_array_equal(rounds.payoffs, np.tile(means, (3, 1)))


def test_scenario_1_has_the_same_centroids_in_all_rounds() -> None:
    problem = ForestCover(scenario=1)
    rounds = all_rounds(problem, 5000, seed=1)
    assert (rounds.arms == all_rounds(problem, 1, seed=2).arms[0]).all()
    np.testing.assert_array_equal(rounds.expected, rounds.payoffs)
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
    folder = files("glbandits.lab.environments")
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
