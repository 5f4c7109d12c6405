"""The problems of the benchmark, by kind and role."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.regret.environments import STUDENT_T, Flip, HiddenOffset, OneHotArms, SparseCrosses
from benchmarks.regret.keel import DEVELOPMENT, REPORTING, load_table
from benchmarks.regret.problem import NEW, OTHERS, SEEN, STUCK, TABLES, Problem
from glbandits.lab.environments import (
    ClassificationTable,
    Environment,
    ForestCover,
    News,
    Synthetic,
    gaussian,
    write_simulated_news,
)


def _given(environment: Environment) -> Callable[[Path], Environment]:
    return lambda _: environment


def _keel(name: str, role: str) -> Problem:
    return Problem(name, "table of the KEEL repository", lambda _: load_table(name), 2000, kind=TABLES, role=role)


def _bundled(name: str, description: str, role: str) -> Problem:
    return Problem(name, description, lambda _: ClassificationTable.bundled(name), kind=TABLES, role=role)


def _stuck(name: str, description: str, environment: Environment, rounds: int, link: str = "logistic") -> Problem:
    return Problem(name, description, _given(environment), rounds, link, STUCK)


def _other(
    name: str, description: str, environment: Environment, rounds: int = 1000, link: str = "logistic", role: str = NEW
) -> Problem:
    return Problem(name, description, _given(environment), rounds, link, OTHERS, role)


def _news(work: Path) -> Environment:
    folder = work / "simulated-news"
    files = sorted(folder.glob("*.gz")) if folder.exists() else write_simulated_news(folder, days=2, seed=1)
    return News(files=tuple(files))


def _one_hot(arms: int, best: float) -> Problem:
    description = f"one-hot arms: K={arms}, one mean {best:g}, the others 0.2"
    return _stuck(f"one-hot-{arms}", description, OneHotArms(arms=arms, best_mean=best, other_mean=0.2), 5000)


_TABLES = (
    *(_keel(name, SEEN) for name in DEVELOPMENT),
    _bundled("iris", "3 classes", SEEN),
    _bundled("wine", "3 classes", SEEN),
    *(_keel(name, NEW) for name in REPORTING),
    _bundled("breast-cancer", "2 classes", NEW),
    _bundled("digits", "10 classes", NEW),
)
_STUCK = (
    _one_hot(10, 0.3),
    _one_hot(20, 0.4),
    _one_hot(50, 0.5),
    _stuck(
        "offset-binary",
        "fixed arms, hidden offset 0.3, 0/1 rewards, identity link: K=15, d=6, theta* 0.3",
        HiddenOffset(dim=6, arms=15, theta_norm=0.3, offset=0.3, link="identity"),
        3000,
        "identity",
    ),
    _stuck(
        "offset-normal",
        "fixed arms, hidden offset 3, normal rewards of deviation 0.45: K=30, d=10, theta* 1",
        HiddenOffset(dim=10, arms=30, theta_norm=1.0, offset=3.0, link="identity", rewards=gaussian(0.45)),
        3000,
        "identity",
    ),
    _stuck(
        "offset-minus-1",
        "fixed arms, hidden offset -1: K=20, d=5, theta* 3",
        HiddenOffset(dim=5, arms=20, theta_norm=3.0, offset=-1.0),
        3000,
    ),
    _stuck(
        "offset-minus-2",
        "fixed arms, hidden offset -2: K=50, d=8, theta* 4",
        HiddenOffset(dim=8, arms=50, theta_norm=4.0, offset=-2.0),
        3000,
    ),
)
_SEEN_OTHERS = (
    _other("simulation", "the paper's simulation: d=6, K=100", Synthetic(dim=6, arms=100), role=SEEN),
    _other("forest-1", "forest cover, 32 centroids as fixed arms: d=10", ForestCover(scenario=1), role=SEEN),
    _other(
        "fixed-5",
        "fixed arms: d=5, K=20, theta* 3",
        Synthetic(dim=5, arms=20, fixed_arms=True, theta_norm=3.0),
        3000,
        role=SEEN,
    ),
    _other(
        "log",
        "Poisson rewards, log link: d=8, K=20, theta* 1",
        Synthetic(dim=8, arms=20, theta_norm=1.0, link="log"),
        link="log",
        role=SEEN,
    ),
    _other(
        "heavy-tailed",
        "Student's t features: d=10, K=20, theta* 2",
        Synthetic(dim=10, arms=20, theta_norm=2.0, features="heavy-tailed"),
        role=SEEN,
    ),
    _other("d-30", "d=30, K=20, theta* 2", Synthetic(dim=30, arms=20, theta_norm=2.0), 2000, role=SEEN),
    _other("k-5", "few arms: K=5, d=10, theta* 2", Synthetic(dim=10, arms=5, theta_norm=2.0), role=SEEN),
    _other(
        "low-ctr",
        "1 % clicks: 9 features and a constant, intercept -4.6, K=10, theta* 3",
        Synthetic(dim=10, arms=10, intercept=-4.6, theta_norm=3.0),
        5000,
        role=SEEN,
    ),
)
_NEW_OTHERS = (
    _other("forest-2", "forest cover, a member of each of 32 clusters: d=55", ForestCover(scenario=2)),
    Problem("news", "SIMULATED news in place of the Yahoo! news: d=6", _news, 2000),
    _other("simulation-5000", "the simulation with T=5000", Synthetic(dim=6, arms=100), 5000),
    _other("theta-5", "d=6, K=50, theta* 5", Synthetic(dim=6, arms=50, theta_norm=5.0), 2000),
    _other("d-100", "d=100, K=10, theta* 3", Synthetic(dim=100, arms=10, theta_norm=3.0)),
    _other("k-1000", "many arms: K=1000, d=6", Synthetic(dim=6, arms=1000)),
    _other(
        "correlated",
        "features of uneven variance: d=10, K=20, theta* 2",
        Synthetic(dim=10, arms=20, theta_norm=2.0, features="correlated"),
    ),
    _other(
        "fixed-20",
        "fixed arms: d=20, K=50, theta* 3",
        Synthetic(dim=20, arms=50, fixed_arms=True, theta_norm=3.0),
        2000,
    ),
    _other(
        "identity",
        "normal rewards of deviation 0.5: d=8, K=20, theta* 1",
        Synthetic(dim=8, arms=20, theta_norm=1.0, link="identity", rewards="gaussian"),
        link="identity",
    ),
    _other(
        "probit",
        "probit link: d=8, K=20, theta* 2",
        Synthetic(dim=8, arms=20, theta_norm=2.0, link="probit"),
        link="probit",
    ),
    # Both have a constant feature, so that only the shape of the mean is misspecified.
    _other(
        "step",
        "misspecified, two means: 10 features and a constant, K=20",
        Synthetic(dim=11, arms=20, theta_norm=2.0, intercept=0.0, misspecified="step"),
    ),
    _other(
        "interaction",
        "misspecified, product of two features: 10 features and a constant, K=20",
        Synthetic(dim=11, arms=20, theta_norm=2.0, intercept=0.0, misspecified="interaction"),
    ),
    _other("times-1000", "the simulation, features times 1000", Synthetic(dim=6, arms=100, feature_scale=1000.0)),
    _other("k-2", "two arms: d=10, theta* 2", Synthetic(dim=10, arms=2, theta_norm=2.0)),
    _other(
        "heavy-rewards",
        "Student's t noise, identity link: d=8, K=20, theta* 1",
        Synthetic(dim=8, arms=20, theta_norm=1.0, link="identity", rewards=STUDENT_T),
        link="identity",
    ),
    _other(
        "flip",
        "theta* becomes -theta* at half time: d=6, K=20, theta* 3",
        Flip(dim=6, arms=20, theta_norm=3.0, flip_after=1000),
        2000,
    ),
    _other(
        "crosses-230",
        "one-hot contexts (10), arms (20) and crosses: 3 non-zero features of an arm",
        SparseCrosses(contexts=10, arms=20),
        4000,
    ),
    _other(
        "crosses-1024",
        "one-hot contexts (40), arms (24) and crosses: 3 non-zero features of an arm",
        SparseCrosses(contexts=40, arms=24),
        4000,
    ),
    _other("d-300", "d=300, K=10, theta* 15", Synthetic(dim=300, arms=10, theta_norm=15.0), 2000),
)
_USED = {
    "one-hot-10", "one-hot-20", "offset-normal", "offset-minus-1", "offset-minus-2",
    "identity", "simulation-5000", "times-1000", "digits",
}  # fmt: skip
"""Planned as reporting problems, but used in development: with the same parameters, or by inspecting a run."""
_ALL = (*_TABLES, *_STUCK, *_SEEN_OTHERS, *_NEW_OTHERS)
PROBLEMS = {problem.name: replace(problem, role=SEEN) if problem.name in _USED else problem for problem in _ALL}
"""Every problem by name: tables, stuck problems and others."""
