"""Run every benchmark: `python -m benchmarks`, or some: `python -m benchmarks run_time online`."""

import sys
from importlib import import_module

NAMES = ("run_time", "online", "growth", "policies")

if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        if name not in NAMES:
            sys.exit(f"unknown benchmark {name!r}. Known: {', '.join(NAMES)}")
        import_module(f"benchmarks.{name}").report()
        print()
