"""Compare policies on simulated problems: on the same seeds (`compare`), or tuned, under two protocols (`protocols`).

`evaluation.policy_comparison` compares policies on a log.
"""

from glbandits.lab.experiments.experiment import Experiment, PolicyEntry
from glbandits.lab.experiments.outcomes import ExperimentResult
from glbandits.lab.experiments.paired_differences import Difference
from glbandits.lab.experiments.protocols import ExperimentRunner
from glbandits.lab.experiments.result_store import ResultStore
from glbandits.lab.experiments.simulated_comparison import (
    SimulatedComparison,
    compare,
    results_table,
    write_results,
)
from glbandits.lab.experiments.summary import ExperimentSummary, summarise
from glbandits.lab.experiments.user_experiment import read_experiments

__all__ = [
    "Difference",
    "Experiment",
    "ExperimentResult",
    "ExperimentRunner",
    "ExperimentSummary",
    "PolicyEntry",
    "ResultStore",
    "SimulatedComparison",
    "compare",
    "read_experiments",
    "results_table",
    "summarise",
    "write_results",
]
