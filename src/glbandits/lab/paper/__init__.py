"""The experiments of the SGD-TS paper, its runtime table, its cost and its theory."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from glbandits.lab.experiments.experiment import Experiment
from glbandits.lab.paper import forest_cover, news, simulation
from glbandits.lab.paper.data_files import DataFiles


@dataclass(frozen=True)
class Sources:
    """The data of the experiments."""

    data: DataFiles = field(default_factory=DataFiles)
    work: Path = Path("out/paper")
    """The folder for cached clusters and simulated news."""
    quick: bool = False
    """Whether to simulate fewer days of news."""


EXPERIMENTS: dict[str, Callable[[Sources], list[Experiment]]] = {
    simulation.NAME: lambda _: [simulation.experiment()],
    forest_cover.SCENARIO_1: lambda sources: [forest_cover.scenario_1(sources.data.forest, sources.work)],
    forest_cover.SCENARIO_2: lambda sources: [
        forest_cover.scenario_2(sources.data.forest, sources.work),
        forest_cover.scenario_2(sources.data.forest, sources.work, forest_cover.AS_PUBLISHED),
    ],
    news.NAME: lambda sources: [news.experiment(sources.data.news, sources.work, quick=sources.quick)],
}
"""The experiments that each name runs."""

__all__ = ["EXPERIMENTS", "Sources"]
