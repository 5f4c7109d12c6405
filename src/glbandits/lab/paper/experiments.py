"""The problems of the SGD-TS paper as experiments (Figure 1), and the policies that play them.

- Simulation: new arms in each round, T=1000, K=100, d=6, logistic link.
- Forest cover: two scenarios with 32 clusters as arms, T=1000. Scenario 1 has fixed arms, the centroids of the clusters
  (d=10). In scenario 2 each round shows a random member of each cluster (d=55).
- News: Yahoo! Today Module logs, one round for each timestamp, d=6.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

import numpy as np

from glbandits.common.atomic_files import atomic_path
from glbandits.lab.environments import ForestCover, News, Synthetic, write_simulated_news
from glbandits.lab.experiments.experiment import Experiment, PolicyEntry
from glbandits.policies import (
    EpsilonGreedy,
    GlbOmd,
    GlmTsl,
    Gloc,
    LaplaceTs,
    OnlineLaplace,
    Optimist,
    SgdTs,
    SupCbGlm,
    UcbGlm,
)

HORIZON, ARMS, DIM = 1000, 100, 6
"""T of the simulation and of forest cover; K and d of the simulation."""
SIMULATION, SCENARIO_1, SCENARIO_2, NEWS = "simulation", "forest-1", "forest-2", "news"
CLEAN, AS_PUBLISHED = "clean", "as-published"
SCENARIO_2_LEAKED = f"{SCENARIO_2}-{AS_PUBLISHED}"
BEST_ARMS = 4
CLEAN_NOTE = "The 55th feature is a constant; the published code has the label there."
LEAKED_NOTE = (
    "AS PUBLISHED: the class label is one of the 55 features, as in the code of the paper. "
    "This is not a valid bandit result."
)
DAYS, QUICK_DAYS, SEED = 10, 1, 1
"""Days and seed of the simulated news. The real data have ten days."""
LOGISTIC = {"link": "logistic"}


@dataclass(frozen=True)
class Sources:
    """The data of the experiments. Without files an experiment uses shipped or simulated data."""

    forest: Path | None = None
    """The whole UCI file of forest cover."""
    news: tuple[Path, ...] = ()
    """Files of Yahoo! R6A."""
    work: Path = Path("out/paper")
    """The folder for cached clusters and simulated news."""
    quick: bool = False
    """Whether to simulate fewer days of news."""


def paper_policies(horizon: int) -> tuple[PolicyEntry, ...]:
    """Return the paper's seven policies with its grids.

    Policies with a horizon setting get the horizon.
    """
    with_horizon = LOGISTIC | {"horizon": horizon}
    return (
        PolicyEntry(SgdTs, with_horizon),
        PolicyEntry(UcbGlm, with_horizon),
        PolicyEntry(GlmTsl, with_horizon),
        PolicyEntry(SupCbGlm, with_horizon),
        PolicyEntry(Gloc, LOGISTIC),
        PolicyEntry(LaplaceTs, LOGISTIC),
        PolicyEntry(EpsilonGreedy, LOGISTIC),
    )


def later_policies() -> tuple[PolicyEntry, ...]:
    """Return three policies that are not in the paper.

    `optimist` is not tuned, the others use their default grids.
    """
    return (PolicyEntry(Optimist, LOGISTIC), PolicyEntry(OnlineLaplace, LOGISTIC), PolicyEntry(GlbOmd, LOGISTIC))


def simulation() -> Experiment:
    """Return the experiment of the paper's section on simulations."""
    return Experiment(
        name=SIMULATION,
        title=f"Simulation: T={HORIZON}, K={ARMS}, d={DIM}, logistic",
        environment=Synthetic(dim=DIM, arms=ARMS, link="logistic"),
        horizon=HORIZON,
        policies=paper_policies(HORIZON),
        extras=later_policies(),
        reference=SgdTs.name,
        note="Features and theta* are uniform in [-1/sqrt(d), 1/sqrt(d)], and different for each seed.",
    )


def scenario_1(data: Path | None, work: Path) -> Experiment:
    """Return scenario 1, from the whole data file or from the shipped part of it."""
    return Experiment(
        name=SCENARIO_1,
        title="Forest cover, scenario 1: T=1000, K=32 fixed arms, d=10",
        environment=forest_cover(1, CLEAN, data, work),
        horizon=HORIZON,
        policies=paper_policies(HORIZON),
        extras=later_policies(),
        reference=SgdTs.name,
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
        policies=paper_policies(HORIZON),
        extras=later_policies(),
        reference=SgdTs.name,
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


def news(files: Sequence[Path], work: Path, *, quick: bool = False) -> Experiment:
    """Return the experiment on R6A files, or on simulated ones in `work` if there are none."""
    if not files:
        days = QUICK_DAYS if quick else DAYS
        folder = work / f"simulated-news-{days}"
        if not folder.exists():
            work.mkdir(parents=True, exist_ok=True)
            try:
                with atomic_path(folder) as temporary:
                    write_simulated_news(temporary, days=days, seed=SEED)
            except OSError:
                if not folder.exists():  # if it does, another command has just written the same files
                    raise
        files = sorted(folder.glob("*.gz"))
    environment = News(files=tuple(files))
    horizon = environment.length()
    source = "simulated, not the Yahoo! data" if environment.simulated else "Yahoo! R6A"
    return Experiment(
        name=NEWS,
        title=f"News ({source}): T={horizon}, d=6",
        environment=environment,
        horizon=horizon,
        policies=paper_policies(horizon),
        extras=later_policies(),
        reference=SgdTs.name,
        measure="reward",
        note="A round is a timestamp, an arm is an article that was shown then, and its mean reward is its share of "
        "clicks. Seeds differ in the noise of rewards only.",
    )


EXPERIMENTS: dict[str, Callable[[Sources], list[Experiment]]] = {
    SIMULATION: lambda _: [simulation()],
    SCENARIO_1: lambda sources: [scenario_1(sources.forest, sources.work)],
    SCENARIO_2: lambda sources: [
        scenario_2(sources.forest, sources.work),
        scenario_2(sources.forest, sources.work, AS_PUBLISHED),
    ],
    NEWS: lambda sources: [news(sources.news, sources.work, quick=sources.quick)],
}
"""The experiments that each name runs."""
