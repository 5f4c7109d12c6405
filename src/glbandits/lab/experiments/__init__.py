"""Compare policies on simulated problems: on the same seeds (`compare`), or tuned, under two protocols (`protocols`).

`evaluation.policy_comparison` compares policies on a log.
"""

from glbandits.lab.experiments.simulated_comparison import FORMATS, SimulatedComparison, compare, results_table

__all__ = ["FORMATS", "SimulatedComparison", "compare", "results_table"]
