"""Compare policies on simulated problems: on the same seeds (`compare`), or tuned, under two protocols (`protocols`).

`evaluation.policy_comparison` compares policies on a log.
"""

from glbandits.lab.experiments.simulated_comparison import (
    TABLE_FORMATS,
    SimulatedComparison,
    compare,
    results_table,
    write_results,
)

__all__ = ["TABLE_FORMATS", "SimulatedComparison", "compare", "results_table", "write_results"]
