"""Run all benchmarks, or some: `python -m benchmarks run_time online`. Options of a benchmark follow its name.

`python -m benchmarks.regret` is a separate program, because it takes hours.
"""

import os
import sys
from importlib import import_module
from itertools import takewhile

# One thread of BLAS and of polars, set before they are loaded. With a second BLAS thread NumPy would use two cores
# against our one, and the thread spins after its work, which counts as CPU time of the next measurement.
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("GLBANDITS_COMPILE", "now")  # measure compiled code

NAMES = (
    "run_time",
    "online",
    "growth",
    "default_policy",
    "drift",
    "drift_policies",
    "outliers",
    "corruption",
    "defaults",
    "payoffs",
    "routing",
    "paper_grid",
    "learning_from_logs",
    "evaluation",
    "coverage",
    "coverage_figures",
    "coverage_differences",
    "promotion",
    "guardrails",
    "verdict",
    "verdicts",
    "sparse",
    "service",
    "production",
)

if __name__ == "__main__":
    for name in [*takewhile(lambda each: not each.startswith("-"), sys.argv[1:])] or NAMES:
        if name not in NAMES:
            sys.exit(f"unknown benchmark {name!r}. Known: {', '.join(NAMES)}")
        import_module(f"benchmarks.{name}").report()
        print()
