"""News (Figure 1): Yahoo! Today Module logs, one round for each timestamp, d=6."""

from collections.abc import Sequence
from pathlib import Path

from glbandits.environments import News, write_simulated_news
from glbandits.experiments.experiment import Experiment
from glbandits.experiments.paper.compared_policies import paper_policies

NAME = "news"
DAYS, SEED = 2, 1
"""Of the simulated stand-in."""


def experiment(files: Sequence[Path], stand_in: Path) -> Experiment:
    """From R6A files; without any, from simulated ones that are written to the folder `stand_in`."""
    if not files:
        if not stand_in.exists():
            half_written = stand_in.with_name(stand_in.name + ".part")
            write_simulated_news(half_written, days=DAYS, seed=SEED)
            half_written.replace(stand_in)
        files = sorted(stand_in.glob("*.gz"))
    environment = News(files=tuple(files))
    horizon = environment.length()
    kind = "SIMULATED stand-in, not the Yahoo! data" if environment.simulated else "Yahoo! R6A"
    return Experiment(
        name=NAME,
        title=f"News ({kind}): T={horizon}, d=6",
        environment=environment,
        horizon=horizon,
        entries=paper_policies(horizon),
        measure="reward",
        note=f"{kind}. A round is a timestamp, an arm an article shown then, its mean reward the share of clicks among "
        "the events that showed it. Seeds differ in the noise of rewards only.",
    )
