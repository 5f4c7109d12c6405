"""`python -m benchmarks.regret [names of problems]`."""

import sys

from benchmarks.regret import report
from glbandits.errors import UnknownName

if __name__ == "__main__":
    try:
        report(sys.argv[1:])
    except UnknownName as unknown:
        sys.exit(str(unknown))
