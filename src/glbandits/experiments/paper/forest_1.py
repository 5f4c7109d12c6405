"""Forest cover, scenario 1 (Figure 1): 32 clusters whose centroids are fixed arms, T=1000, d=10."""

from pathlib import Path

from glbandits.experiments.experiment import Experiment
from glbandits.experiments.paper.compared_policies import later_policies, paper_policies
from glbandits.experiments.paper.forest_clusters import forest_cover

NAME, HORIZON, BEST_ARMS = "forest-1", 1000, 4


def experiment(data: Path | None, work: Path) -> Experiment:
    """From the whole file, or from the part that comes with the package."""
    return Experiment(
        name=NAME,
        title="Forest cover, scenario 1: T=1000, K=32 fixed arms, d=10",
        environment=forest_cover(1, "clean", data, work),
        horizon=HORIZON,
        entries=paper_policies(HORIZON),
        extras=later_policies(),
        best_arms=BEST_ARMS,
        note="An arm is a cluster: its features are the centroid, its mean reward the share of class 1 in it. "
        "The arms never change, so the paper's diversity assumption does not hold here. Seeds differ in noise only.",
    )
