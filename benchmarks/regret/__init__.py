"""Regret of every policy on many unlike problems, each policy tuned, and Optimist as it comes.

    python -m benchmarks.regret                      # all problems; hours
    python -m benchmarks.regret simulation iris      # these

Finished runs are kept in out/regret/store, so a run that was stopped goes on where it was. Tables and the picture in
out/regret are of the problems that were named last; naming all of them again only reads the store.
"""

from benchmarks.regret.run import report

__all__ = ["report"]
