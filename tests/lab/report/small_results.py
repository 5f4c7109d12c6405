"""Small results of two policies for the tests of reports."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from glbandits import EpsilonGreedy, SgdTs, Uniform
from glbandits.lab import Noise, Synthetic
from glbandits.lab.environments.rounds import Rounds
from glbandits.lab.experiments.experiment import Experiment, PolicyEntry
from glbandits.lab.experiments.outcomes import ExperimentResult
from glbandits.lab.experiments.protocols import PROTOCOLS, ExperimentRunner
from glbandits.lab.experiments.result_store import ResultStore
from glbandits.lab.paper.runtime import RuntimeRow, RuntimeTable

HORIZON = 60


@dataclass(frozen=True)
class SimulatedProblem:
    """A problem whose data are marked as simulated."""

    problem: Synthetic = field(default_factory=lambda: Synthetic(dim=2, arms=5))
    simulated: bool = True

    @property
    def dim(self) -> int:
        return self.problem.dim

    @property
    def noise(self) -> Noise:
        return self.problem.noise

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        return self.problem.rounds(horizon, seed)


ENTRIES = (
    PolicyEntry(SgdTs, {"horizon": HORIZON}, {"step": (0.1, 1.0), "exploration_a1": (0.01, 0.1, 1.0)}),
    PolicyEntry(EpsilonGreedy, {}, {"exploration": (0.1, 1.0)}),
)
EXTRAS = (PolicyEntry(Uniform, {"link": "logistic"}),)
FIXED_ARMS = Experiment(
    name="forest-1",
    title="Five fixed arms <& no forest>",
    environment=Synthetic(dim=2, arms=5, fixed_arms=True),
    horizon=HORIZON,
    policies=ENTRIES,
    extras=EXTRAS,
    repeats=(1, 2, 3),
    fresh=(11, 12, 13, 14),
    best_arms=4,
    note="A note with <b>letters</b> to escape.",
)
NEWS = Experiment(
    name="news",
    title="News",
    environment=SimulatedProblem(),
    horizon=HORIZON,
    policies=ENTRIES,
    repeats=(1, 2, 3),
    fresh=(11, 12, 13, 14),
    measure="reward",
)
RUNTIME = RuntimeTable(
    rows=(
        RuntimeRow("sgd-ts", 0.0004, 0.0008, 0.099, 0.127, 1.01, 0.35),
        RuntimeRow("ucb-glm", 0.05, 0.04, 2.024, 29.643, 1.98, 1.21),
        RuntimeRow("uniform", 0.00001, 0.00002, None, None, 1.0, 0.02),
    ),
    news_horizon=288,
    news_is_simulated=True,
)


@cache
def small_results() -> tuple[ExperimentResult, ExperimentResult]:
    """Run both experiments under both protocols."""
    with TemporaryDirectory() as folder:
        fixed_arms, news = ExperimentRunner(ResultStore(Path(folder)), jobs=1).run([FIXED_ARMS, NEWS], PROTOCOLS)
    return fixed_arms, news
