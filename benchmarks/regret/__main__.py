"""`python -m benchmarks.regret [problems] [options]`."""

import os
import sys
from importlib import import_module

# One BLAS thread, set before NumPy is loaded: a second one would count as CPU time of whatever runs next.
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"

if __name__ == "__main__":
    errors = import_module("glbandits.common.errors")
    try:
        import_module("benchmarks.regret.run").main(sys.argv[1:])
    except errors.GlbanditsError as error:
        sys.exit(str(error))
