"""The paper's experiments, its table and its theory, one file each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from glbandits.experiments.experiment import Experiment
from glbandits.experiments.paper import forest_1, forest_2, news, simulation
from glbandits.experiments.paper.data_files import DataFiles


@dataclass(frozen=True)
class Sources:
    """Where data come from."""

    data: DataFiles = field(default_factory=DataFiles)
    work: Path = Path("out/paper")
    """The folder for clusters and for the stand-in of the news."""
    quick: bool = False
    """Whether a short stand-in is enough."""


EXPERIMENTS: dict[str, Callable[[Sources], list[Experiment]]] = {
    simulation.NAME: lambda _: [simulation.experiment()],
    forest_1.NAME: lambda sources: [forest_1.experiment(sources.data.forest, sources.work)],
    forest_2.NAME: lambda sources: [
        forest_2.experiment(sources.data.forest, sources.work),
        forest_2.experiment(sources.data.forest, sources.work, forest_2.AS_PUBLISHED),
    ],
    news.NAME: lambda sources: [news.experiment(sources.data.news, sources.work, quick=sources.quick)],
}
"""What each name runs."""

__all__ = ["EXPERIMENTS", "Sources"]
