"""Forest cover, scenario 2 (Figure 1): each round shows a random member of each cluster, T=1000, d=55."""

from pathlib import Path

from glbandits.experiments.experiment import Experiment
from glbandits.experiments.paper.compared_policies import later_policies, paper_policies
from glbandits.experiments.paper.forest_clusters import forest_cover

NAME, HORIZON, BEST_ARMS = "forest-2", 1000, 4
CLEAN, AS_PUBLISHED = "clean", "as-published"
CLEAN_NOTE = "The 55th feature is a constant; the published code has the label there."
LEAKED_NOTE = (
    "AS PUBLISHED: the class label is one of the 55 features, as in the code behind the paper. "
    "Do not read this as a bandit result."
)


def experiment(data: Path | None, work: Path, version: str = CLEAN) -> Experiment:
    """Clean: 54 features and a constant. As published: the label is the 55th feature, so the answer is shown."""
    leaked = version == AS_PUBLISHED
    return Experiment(
        name=f"{NAME}-{version}" if leaked else NAME,
        title=f"Forest cover, scenario 2{', AS PUBLISHED (label leaked)' if leaked else ''}: T=1000, K=32, d=55",
        environment=forest_cover(2, version, data, work),
        horizon=HORIZON,
        entries=paper_policies(HORIZON),
        extras=later_policies(),
        best_arms=BEST_ARMS,
        note="Each round every cluster shows one of its members, and pays that member's own label. Regret is counted "
        f"with the cluster's mean. {LEAKED_NOTE if leaked else CLEAN_NOTE}",
    )
