"""The problems: the paper's, what changes one thing of them, what breaks an assumption, and real tables."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from glbandits.environments import (
    ClassificationTable,
    Environment,
    ForestCover,
    News,
    Shaped,
    Synthetic,
    write_simulated_news,
)


@dataclass(frozen=True)
class Problem:
    """What is played, and how long."""

    name: str
    words: str
    build: Callable[[Path], Environment]
    """The environment; it may write files to the folder that it is given."""
    most_rounds: int = 1000
    link: str = "logistic"
    """What policies that have a link are told."""

    def horizon(self, environment: Environment) -> int:
        """The number of rounds: as many as wanted, or as there are."""
        return min(self.most_rounds, environment.length()) if isinstance(environment, News) else self.most_rounds


def _made(environment: Environment) -> Callable[[Path], Environment]:
    return lambda _: environment


def _table(name: str) -> Callable[[Path], Environment]:
    return lambda _: ClassificationTable.bundled(name)


def _news(work: Path) -> Environment:
    folder = work / "simulated-news"
    files = sorted(folder.glob("*.gz")) if folder.exists() else write_simulated_news(folder, days=2, seed=1)
    return News(files=tuple(files))


LISTED = (
    Problem("simulation", "the paper's simulation: d=6, K=100", _made(Synthetic(dim=6, arms=100))),
    Problem("forest-1", "forest cover, 32 centroids as fixed arms, d=10", _made(ForestCover(scenario=1))),
    Problem("forest-2", "forest cover, a member of each of 32 clusters, d=55", _made(ForestCover(scenario=2))),
    Problem("news", "SIMULATED stand-in for the Yahoo! news, d=6", _news, most_rounds=2000),
    Problem("simulation-5000", "the simulation for longer", _made(Synthetic(dim=6, arms=100)), 5000),
    Problem("theta-5", "long theta*: 5; d=6, K=50", _made(Synthetic(dim=6, arms=50, theta_norm=5.0)), 2000),
    Problem("d-30", "d=30, K=20, theta* 2", _made(Synthetic(dim=30, arms=20, theta_norm=2.0)), 2000),
    Problem("d-100", "d=100, K=10, theta* 3", _made(Synthetic(dim=100, arms=10, theta_norm=3.0))),
    Problem("k-5", "few arms: K=5, d=10, theta* 2", _made(Synthetic(dim=10, arms=5, theta_norm=2.0))),
    Problem("k-1000", "many arms: K=1000, d=6", _made(Synthetic(dim=6, arms=1000))),
    Problem(
        "heavy-tailed",
        "Student's t features: d=10, K=20, theta* 2",
        _made(Shaped(dim=10, arms=20, theta_norm=2.0, features="heavy-tailed")),
    ),
    Problem(
        "correlated",
        "features of uneven directions: d=10, K=20, theta* 2",
        _made(Shaped(dim=10, arms=20, theta_norm=2.0, features="correlated")),
    ),
    Problem(
        "fixed-5",
        "fixed arms: d=5, K=20, theta* 3",
        _made(Synthetic(dim=5, arms=20, fixed_arms=True, theta_norm=3.0)),
        3000,
    ),
    Problem(
        "fixed-20",
        "fixed arms: d=20, K=50, theta* 3",
        _made(Synthetic(dim=20, arms=50, fixed_arms=True, theta_norm=3.0)),
        2000,
    ),
    Problem(
        "identity",
        "normal rewards of deviation 0.5: d=8, K=20, theta* 1",
        _made(Synthetic(dim=8, arms=20, theta_norm=1.0, link="identity", rewards="gaussian")),
        link="identity",
    ),
    Problem(
        "probit",
        "probit link: d=8, K=20, theta* 2",
        _made(Synthetic(dim=8, arms=20, theta_norm=2.0, link="probit")),
        link="probit",
    ),
    Problem(
        "log",
        "Poisson rewards, log link: d=8, K=20, theta* 1",
        _made(Synthetic(dim=8, arms=20, theta_norm=1.0, link="log")),
        link="log",
    ),
    Problem(
        "low-ctr",
        "1 % clicks: 9 features and a constant, intercept -4.6, K=10, theta* 3",
        _made(Shaped(dim=10, arms=10, intercept=-4.6, theta_norm=3.0)),
        5000,
    ),
    # A constant is shown in both, so that it is the shape alone that no policy can learn.
    Problem(
        "step",
        "misspecified: two means; 10 features and a constant, K=20",
        _made(Shaped(dim=11, arms=20, theta_norm=2.0, intercept=0.0, misspecified="step")),
    ),
    Problem(
        "interaction",
        "misspecified: two features multiply; 10 features and a constant, K=20",
        _made(Shaped(dim=11, arms=20, theta_norm=2.0, intercept=0.0, misspecified="interaction")),
    ),
    Problem(
        "times-1000",
        "the simulation with features in other units: times 1000",
        _made(Shaped(dim=6, arms=100, feature_scale=1000.0)),
    ),
    Problem("iris", "which of 3 irises: d=15", _table("iris")),
    Problem("wine", "which of 3 wines: d=42", _table("wine")),
    Problem("breast-cancer", "malignant or benign: d=62", _table("breast-cancer")),
    Problem("digits", "which of 10 digits: d=650", _table("digits")),
)
PROBLEMS = {problem.name: problem for problem in LISTED}
