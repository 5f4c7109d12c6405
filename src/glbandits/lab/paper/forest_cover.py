"""Forest cover (Figure 1): two scenarios with 32 clusters as arms, T=1000.

Scenario 1 has fixed arms, the centroids of the clusters (d=10). In scenario 2 each round shows a random member of each
cluster (d=55).
"""

from hashlib import file_digest
from pathlib import Path

import numpy as np

from glbandits.common.atomic_files import atomic_path
from glbandits.lab.environments import ForestCover
from glbandits.lab.experiments.experiment import Experiment
from glbandits.lab.paper.compared_policies import later_policies, paper_policies

SCENARIO_1, SCENARIO_2 = "forest-1", "forest-2"
HORIZON, BEST_ARMS = 1000, 4
CLEAN, AS_PUBLISHED = "clean", "as-published"
SCENARIO_2_LEAKED = f"{SCENARIO_2}-{AS_PUBLISHED}"
CLEAN_NOTE = "The 55th feature is a constant; the published code has the label there."
LEAKED_NOTE = (
    "AS PUBLISHED: the class label is one of the 55 features, as in the code of the paper. "
    "This is not a valid bandit result."
)


def scenario_1(data: Path | None, work: Path) -> Experiment:
    """Return scenario 1, from the whole data file or from the shipped part of it."""
    return Experiment(
        name=SCENARIO_1,
        title="Forest cover, scenario 1: T=1000, K=32 fixed arms, d=10",
        environment=forest_cover(1, CLEAN, data, work),
        horizon=HORIZON,
        entries=paper_policies(HORIZON),
        extras=later_policies(),
        best_arms=BEST_ARMS,
        note="An arm is a cluster: its features are the centroid, its mean reward is the share of class 1. "
        "The arms never change, so the paper's diversity assumption does not hold. Seeds differ in noise only.",
    )


def scenario_2(data: Path | None, work: Path, version: str = CLEAN) -> Experiment:
    """Return scenario 2.

    CLEAN has 54 features and a constant; AS_PUBLISHED has the label as the 55th feature.
    """
    leaked = version == AS_PUBLISHED
    return Experiment(
        name=SCENARIO_2_LEAKED if leaked else SCENARIO_2,
        title=f"Forest cover, scenario 2{', AS PUBLISHED (label leaked)' if leaked else ''}: T=1000, K=32, d=55",
        environment=forest_cover(2, version, data, work),
        horizon=HORIZON,
        entries=paper_policies(HORIZON),
        extras=later_policies(),
        best_arms=BEST_ARMS,
        note="In each round every cluster shows one of its members, and its reward is that member's label. Regret uses "
        f"the mean of the cluster. {LEAKED_NOTE if leaked else CLEAN_NOTE}",
    )


def forest_cover(scenario: int, version: str, data: Path | None, work: Path) -> ForestCover:
    """Return the environment from the shipped part, or from the whole data file.

    KMeans on the whole file takes minutes, so its clusters are cached in the folder `work`. The name of the cache file
    contains a hash of the data, so that another data file never gets these clusters.
    """
    if data is None:
        return ForestCover(scenario=scenario, version=version)
    cached = work / f"{data.name}-{_digest(data)}-clusters-{scenario}-{version}.npz"
    if not cached.exists():
        labels = ForestCover(scenario=scenario, version=version, data=data).labels()
        work.mkdir(parents=True, exist_ok=True)
        with atomic_path(cached) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, labels=labels)
    return ForestCover(scenario=scenario, version=version, data=data, clusters=cached)


def _digest(path: Path) -> str:
    """Return the first 16 hex digits of the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()[:16]
