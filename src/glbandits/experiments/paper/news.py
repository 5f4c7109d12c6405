"""News (Figure 1): Yahoo! Today Module logs, one round for each timestamp, d=6."""

from collections.abc import Sequence
from pathlib import Path

from glbandits.environments import News, write_simulated_news
from glbandits.experiments.experiment import Experiment
from glbandits.experiments.paper.compared_policies import later_policies, paper_policies

NAME = "news"
DAYS, QUICK_DAYS, SEED = 10, 1, 1
"""Of the simulated stand-in: ten days, as many as the real data have."""


def experiment(files: Sequence[Path], work: Path, *, quick: bool = False) -> Experiment:
    """From R6A files; without any, from simulated ones that are written to a subfolder of `work`."""
    if not files:
        days = QUICK_DAYS if quick else DAYS
        folder = work / f"simulated-news-{days}"
        if not folder.exists():
            partial = folder.with_name(folder.name + ".part")
            write_simulated_news(partial, days=days, seed=SEED)
            partial.replace(folder)
        files = sorted(folder.glob("*.gz"))
    environment = News(files=tuple(files))
    horizon = environment.length()
    kind = "simulated, not the Yahoo! data" if environment.simulated else "Yahoo! R6A"
    return Experiment(
        name=NAME,
        title=f"News ({kind}): T={horizon}, d=6",
        environment=environment,
        horizon=horizon,
        entries=paper_policies(horizon),
        extras=later_policies(),
        measure="reward",
        note="A round is a timestamp, an arm is an article shown then, and its mean reward is the share of clicks "
        "among the events that showed it. Seeds differ in the noise of rewards only.",
    )
