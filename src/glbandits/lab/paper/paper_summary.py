"""The numbers of all results of the paper, in one JSON file."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from glbandits.common.errors import InvalidInput
from glbandits.common.version import __version__
from glbandits.lab.experiments.summary import ComparisonSummary, ExperimentSummary, summarise
from glbandits.lab.paper.cost import CostTable
from glbandits.lab.paper.runtime import RuntimeTable
from glbandits.lab.paper.theory import TheoryCheck
from glbandits.lab.paper.whole_paper import PaperResults


@dataclass(frozen=True)
class PaperSummary(ComparisonSummary):
    """The numbers of the parts of the paper that were run."""

    runtime: RuntimeTable | None = None
    cost: CostTable | None = None
    theory: TheoryCheck | None = None

    def experiment(self, name: str) -> ExperimentSummary | None:
        """Return the experiment of this name; None unless it ran under both protocols."""
        for experiment in self.experiments:
            if experiment.name == name and experiment.paper is not None and experiment.fresh is not None:
                return experiment
        return None


def summarise_paper(results: PaperResults, command: str, *, quick: bool) -> PaperSummary:
    """Reduce the results to their summary."""
    experiments = tuple(map(summarise, results.experiments))
    return PaperSummary(__version__, command, quick, experiments, results.runtime, results.cost, results.theory)


def read_summary(path: Path) -> PaperSummary:
    """Read a summary that `write_summary` wrote. Raises InvalidInput if it is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=PaperSummary)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{path} is not a summary of the paper's results: {error}. Run glb paper again.") from None
