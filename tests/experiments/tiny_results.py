"""Small results for the tests of reports: two policies, really run."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from glbandits import EpsilonGreedy, SgdTs
from glbandits.environments import Noise, Synthetic
from glbandits.experiments.experiment import Experiment, PolicyEntry
from glbandits.experiments.protocols import PROTOCOLS, ExperimentRunner
from glbandits.experiments.result_store import ResultStore
from glbandits.experiments.results import ExperimentResult, RuntimeRow, RuntimeTable
from glbandits.records import Rounds

HORIZON = 60


@dataclass(frozen=True)
class StandIn:
    """A problem that says of itself that its data are simulated."""

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
FIXED_ARMS = Experiment(
    name="forest-1",
    title="Five fixed arms <& no forest>",
    environment=Synthetic(dim=2, arms=5, fixed_arms=True),
    horizon=HORIZON,
    entries=ENTRIES,
    repeats=(1, 2, 3),
    fresh=(11, 12, 13, 14),
    best_arms=4,
    note="A note with <b>letters</b> to escape.",
)
NEWS = Experiment(
    name="news",
    title="News",
    environment=StandIn(),
    horizon=HORIZON,
    entries=ENTRIES,
    repeats=(1, 2, 3),
    fresh=(11, 12, 13, 14),
    measure="reward",
)
RUNTIME = RuntimeTable(
    rows=(
        RuntimeRow("sgd-ts", 0.0004, 0.099, 1.01, 0.35),
        RuntimeRow("ucb-glm", 0.05, 2.024, 1.98, 1.21),
        RuntimeRow("uniform", 0.00001, None, 1.0, 0.02),
    ),
    horizons=(500, 1000, 2000),
    dimensions=(6, 12, 24),
)


@cache
def tiny_results() -> tuple[ExperimentResult, ExperimentResult]:
    """Both experiments under both protocols."""
    with TemporaryDirectory() as folder:
        runner = ExperimentRunner(ResultStore(Path(folder)), jobs=1)
        fixed_arms, news = (
            ExperimentResult(experiment, tuple(run(experiment, runner) for run in PROTOCOLS.values()), quick=False)
            for experiment in (FIXED_ARMS, NEWS)
        )
    return fixed_arms, news
