"""The numbers of an experiment that reports and claims use, as plain data for a JSON file."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from glbandits.common.arrays import Floats
from glbandits.lab.experiments.outcomes import (
    FRESH,
    PAPER,
    ExperimentResult,
    Outcome,
    ProtocolResult,
    best_pulls,
    expected_best,
    half_width,
)
from glbandits.lab.experiments.paired_differences import Difference, paired_differences

FILE = "summary.json"
EQUAL_GRID = 5
"""Size of the paper's smallest grid. `equal_grid_regret` reduces every grid to this size."""


@dataclass(frozen=True)
class PolicySummary:
    """One policy under one protocol.

    Half-widths are of 95 % intervals, and None for a single seed.
    """

    label: str
    is_extra: bool
    """Whether the policy is not in the paper."""
    tried: int
    """Number of settings in its grid."""
    chosen: str
    regret: float
    half_width: float | None
    behind: float
    """Mean paired difference to the policy of least regret."""
    behind_half_width: float | None
    difference: float | None
    """Mean paired difference to the reference: negative if this policy is better."""
    difference_half_width: float | None
    """Of the interval for this policy alone. See `simultaneous_half_width`."""
    reward: float | None
    """Mean expected reward per round, in experiments whose measure is "reward"."""
    best_arm_pulls: float | None
    """Median pulls of the best arm, if arms keep their index."""
    equal_grid_regret: float
    """Expected regret of the paper's protocol with five settings drawn from the grid."""
    seconds: float
    """Mean CPU seconds of a run."""
    simultaneous_half_width: float | None = None
    """Half-width of the difference on fresh seeds such that the intervals of all policies hold at once."""

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the regret."""
        width = self.half_width or 0.0
        return self.regret - width, self.regret + width


@dataclass(frozen=True)
class ProtocolSummary:
    """All policies under one protocol."""

    protocol: str
    seeds: int
    policies: tuple[PolicySummary, ...]

    def __contains__(self, label: str) -> bool:
        return any(policy.label == label for policy in self.policies)

    def __getitem__(self, label: str) -> PolicySummary:
        return next(policy for policy in self.policies if policy.label == label)

    @property
    def compared(self) -> list[PolicySummary]:
        """Policies of the paper, sorted by regret."""
        return sorted((p for p in self.policies if not p.is_extra), key=lambda policy: policy.regret)

    @property
    def ordered(self) -> list[PolicySummary]:
        """All policies, sorted by regret."""
        return sorted(self.policies, key=lambda policy: policy.regret)

    def rank(self, label: str) -> int:
        """Return the rank of a policy among those of the paper, from 1."""
        return 1 + [policy.label for policy in self.compared].index(label)


@dataclass(frozen=True)
class ExperimentSummary:
    """An experiment under one protocol or both."""

    name: str
    title: str
    horizon: int
    measure: str
    """"regret" or "reward": what figures show."""
    simulated_data: bool
    best_mean: float | None
    """The largest mean reward of an arm, if arms do not change."""
    worst_mean: float | None
    paper: ProtocolSummary | None
    fresh: ProtocolSummary | None
    reference: str | None = None
    """The policy to which differences are computed."""


@dataclass(frozen=True)
class ComparisonSummary:
    """The numbers of a comparison on one problem or several."""

    version: str
    command: str
    quick: bool
    """Whether thin grids and fewer seeds were used."""
    experiments: tuple[ExperimentSummary, ...]


def write_summary(summary: ComparisonSummary, folder: Path) -> Path:
    """Write the summary as JSON into a folder; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
    return path


def summarise(result: ExperimentResult) -> ExperimentSummary:
    """Reduce an experiment's result to its summary."""
    means = getattr(result.experiment.environment, "means", None)
    values = means() if callable(means) else None
    return ExperimentSummary(
        name=result.experiment.name,
        title=result.experiment.title,
        horizon=result.experiment.horizon,
        measure=result.experiment.measure,
        simulated_data=result.simulated_data,
        best_mean=None if values is None else float(values.max()),
        worst_mean=None if values is None else float(values.min()),
        paper=_protocol(result, PAPER),
        fresh=_protocol(result, FRESH),
        reference=result.experiment.reference,
    )


def _protocol(result: ExperimentResult, name: str) -> ProtocolSummary | None:
    protocol = result.under(name)
    if protocol is None:
        return None
    medians = best_pulls(result, protocol).medians if result.experiment.best_arms > 0 else {}
    pulls = {label: float(values[0]) for label, values in medians.items()}
    reference, differences = result.experiment.reference, dict[str, Difference]()
    finals = {outcome.label: outcome.final for outcome in protocol.outcomes}
    if name == FRESH and reference is not None:
        differences = paired_differences(finals, reference)
    policies = tuple(
        _policy(result, protocol, outcome, pulls, differences.get(outcome.label)) for outcome in protocol.outcomes
    )
    return ProtocolSummary(name, len(protocol.outcomes[0].seeds), policies)


def _policy(
    result: ExperimentResult,
    protocol: ProtocolResult,
    outcome: Outcome,
    pulls: Mapping[str, float],
    simultaneous: Difference | None,
) -> PolicySummary:
    reference = next((other for other in protocol.outcomes if other.label == result.experiment.reference), None)
    behind, behind_half_width = _mean_and_half_width(outcome.final - protocol.best.final)
    horizon, shows_reward = result.experiment.horizon, result.experiment.measure == "reward"
    difference, difference_half_width = (
        (None, None) if reference is None else _mean_and_half_width(outcome.final - reference.final)
    )
    return PolicySummary(
        label=outcome.label,
        is_extra=outcome.is_extra,
        tried=outcome.tried,
        chosen=outcome.chosen,
        regret=float(outcome.final.mean()),
        half_width=_finite(float(outcome.half_width[-1])),
        behind=behind,
        behind_half_width=behind_half_width,
        difference=difference,
        difference_half_width=difference_half_width,
        reward=float((protocol.best_reward[-1] - outcome.mean[-1]) / horizon) if shows_reward else None,
        best_arm_pulls=pulls.get(outcome.label),
        equal_grid_regret=expected_best(outcome.grid_regret, EQUAL_GRID),
        seconds=float(outcome.seconds.mean()),
        simultaneous_half_width=None if simultaneous is None else simultaneous.half_width,
    )


def _mean_and_half_width(values: Floats) -> tuple[float, float | None]:
    return float(values.mean()), _finite(float(half_width(values[:, np.newaxis])[0]))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
