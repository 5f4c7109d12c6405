"""Run every benchmark: `python -m benchmarks`, or some: `python -m benchmarks run_time online`.

`python -m benchmarks.regret` is a separate program, because it takes hours.
"""

import os
import sys
from importlib import import_module

# One thread of BLAS and of polars, set before they are loaded. A second one of BLAS makes NumPy's side use two cores
# against our one, and goes on spinning after its work, which then counts as CPU time of whatever runs next.
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("GLBANDITS_COMPILE", "now")  # machine code is what is measured

NAMES = (
    "run_time",
    "online",
    "growth",
    "default_policy",
    "drift",
    "defaults",
    "paper_grid",
    "r6a",
    "progressive_replay",
    "evaluation",
    "coverage",
    "coverage_figures",
    "sparse",
    "service",
)

if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        if name not in NAMES:
            sys.exit(f"unknown benchmark {name!r}. Known: {', '.join(NAMES)}")
        import_module(f"benchmarks.{name}").report()
        print()
