"""What an experiment found: all that a report needs, and no run of it."""

from dataclasses import dataclass

from glbandits.errors import InvalidInput
from glbandits.experiments.experiment import Experiment
from glbandits.experiments.protocols import ProtocolResult


@dataclass(frozen=True)
class ExperimentResult:
    """An experiment under one protocol or more."""

    experiment: Experiment
    protocols: tuple[ProtocolResult, ...]
    quick: bool
    """Whether the thin grid was used."""

    @property
    def simulated_data(self) -> bool:
        """Whether its data stand in for others; every picture must then say so."""
        return bool(getattr(self.experiment.environment, "simulated", False))


@dataclass(frozen=True)
class RuntimeRow:
    """One line of Table 1, ours beside the paper's."""

    label: str
    seconds: float
    """Least CPU seconds of a run on the simulation, T=1000, K=100, d=6."""
    paper_seconds: float | None
    """The paper's, where it has this policy."""
    growth_T: float
    """Fitted exponent of the seconds in T."""
    growth_d: float
    """Fitted exponent in d."""


@dataclass(frozen=True)
class RuntimeTable:
    """Table 1."""

    rows: tuple[RuntimeRow, ...]
    horizons: tuple[int, ...]
    dimensions: tuple[int, ...]

    def ratio(self, row: RuntimeRow) -> float:
        """How much longer than SGD-TS, here."""
        return row.seconds / self._sgd_ts().seconds

    def paper_ratio(self, row: RuntimeRow) -> float | None:
        """How much longer than SGD-TS, in the paper."""
        base = self._sgd_ts().paper_seconds
        return None if row.paper_seconds is None or base is None else row.paper_seconds / base

    def _sgd_ts(self) -> RuntimeRow:
        found = [row for row in self.rows if row.label == "sgd-ts"]
        if not found:
            raise InvalidInput(f"a ratio to sgd-ts needs its row; got {', '.join(row.label for row in self.rows)}")
        return found[0]
