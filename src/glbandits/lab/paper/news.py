"""News (Figure 1): Yahoo! Today Module logs, one round for each timestamp, d=6."""

from collections.abc import Sequence
from pathlib import Path

from glbandits.common.atomic_files import atomic_path
from glbandits.lab.environments import News, write_simulated_news
from glbandits.lab.experiments.experiment import Experiment
from glbandits.lab.paper.compared_policies import later_policies, paper_policies

NAME = "news"
DAYS, QUICK_DAYS, SEED = 10, 1, 1
"""Days and seed of the simulated news. The real data have ten days."""


def experiment(files: Sequence[Path], work: Path, *, quick: bool = False) -> Experiment:
    """Return the experiment on R6A files, or on simulated ones in `work` if there are none."""
    if not files:
        days = QUICK_DAYS if quick else DAYS
        folder = work / f"simulated-news-{days}"
        if not folder.exists():
            work.mkdir(parents=True, exist_ok=True)
            with atomic_path(folder) as temporary:
                write_simulated_news(temporary, days=days, seed=SEED)
        files = sorted(folder.glob("*.gz"))
    environment = News(files=tuple(files))
    horizon = environment.length()
    source = "simulated, not the Yahoo! data" if environment.simulated else "Yahoo! R6A"
    return Experiment(
        name=NAME,
        title=f"News ({source}): T={horizon}, d=6",
        environment=environment,
        horizon=horizon,
        entries=paper_policies(horizon),
        extras=later_policies(),
        measure="reward",
        note="A round is a timestamp, an arm is an article that was shown then, and its mean reward is its share of "
        "clicks. Seeds differ in the noise of rewards only.",
    )
