"""The paper's figures and its table, one file each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from glbandits.experiments.experiment import Experiment
from glbandits.experiments.paper import forest_1, forest_2, news, runtime, simulation


@dataclass(frozen=True)
class Sources:
    """Where data come from; without any, from what is shipped or simulated."""

    forest: Path | None = None
    """The whole UCI file of forest cover."""
    news: Sequence[Path] = ()
    """Files of Yahoo! R6A."""
    work: Path = Path("out/paper")
    """Where clusters and a stand-in for the news may be written."""


EXPERIMENTS: dict[str, Callable[[Sources], list[Experiment]]] = {
    simulation.NAME: lambda _: [simulation.experiment()],
    forest_1.NAME: lambda sources: [forest_1.experiment(sources.forest, sources.work)],
    forest_2.NAME: lambda sources: [
        forest_2.experiment(sources.forest, sources.work),
        forest_2.experiment(sources.forest, sources.work, forest_2.AS_PUBLISHED),
    ],
    news.NAME: lambda sources: [news.experiment(sources.news, sources.work / "simulated-news")],
}
"""What each name runs."""
NAMES = (*EXPERIMENTS, runtime.NAME)

__all__ = ["EXPERIMENTS", "NAMES", "Sources", "runtime"]
