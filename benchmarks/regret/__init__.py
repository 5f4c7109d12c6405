"""Regret of every policy, default and tuned, on many problems; Vowpal Wabbit on tables.

    python -m benchmarks.regret                          # all problems and policies
    python -m benchmarks.regret iris wine                # these problems
    python -m benchmarks.regret --policies optimist      # this policy; the results of the others stay

Results are stored in out/regret/results, one file for each problem. A run that was interrupted continues with the
first problem that is missing or out of date. The page, the CSV file and the figure always show all stored results.
"""
