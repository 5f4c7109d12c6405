"""Update the results of each problem; write the page, the CSV file and the figure."""

import argparse
import csv
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.regret.candidates import SUBJECT
from benchmarks.regret.csv_file import write_csv
from benchmarks.regret.figure import draw
from benchmarks.regret.page import markdown, problem_rows
from benchmarks.regret.problem import Problem
from benchmarks.regret.problems import PROBLEMS
from benchmarks.regret.run_problem import ALL_POLICIES, estimate, update
from benchmarks.regret.storage import read_results
from glbandits.common.errors import lookup

FOLDER = Path("out/regret")


def main(arguments: Sequence[str]) -> None:
    """Run the benchmark with these command-line arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regret", description=__doc__)
    parser.add_argument("problems", nargs="*", help="problems to run; all by default")
    parser.add_argument("--policies", help="policies to run, separated by commas; all by default")
    parser.add_argument("--without", default="", help="policies to leave out, separated by commas")
    parser.add_argument("--jobs", type=int, default=-1, help="seeds to run at once; -1 for one per core")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the results")
    parser.add_argument("--page-only", action="store_true", help="run nothing; write the page from stored results")
    parser.add_argument("--estimate", action="store_true", help="print the expected CPU time, from one run of each")
    options = parser.parse_args(arguments)
    problems = [lookup("problem", name, PROBLEMS) for name in options.problems] or list(PROBLEMS.values())
    known = {name: name for name in ALL_POLICIES}
    policies = [lookup("policy", name, known) for name in options.policies.split(",")] if options.policies else known
    policies = [name for name in policies if name not in options.without.split(",")]
    if options.estimate:
        print_estimate(problems, policies, options.out)
        return
    for problem in [] if options.page_only else problems:
        began = time.monotonic()
        update(problem, policies, options.out, options.jobs)
        print(f"{problem.name}: {time.monotonic() - began:.0f} s", flush=True)
    write_report(options.out)


def print_estimate(problems: Sequence[Problem], policies: Sequence[str], folder: Path) -> None:
    """Print the CPU seconds of each problem and policy, extrapolated from one run, and those of compiling."""
    by_policy, began = Counter[str](), time.process_time()
    for problem in problems:
        seconds = estimate(problem, policies, folder)
        by_policy.update(seconds)
        print(f"{problem.name:16s} {sum(seconds.values()):7.0f}", flush=True)
    for name, total in by_policy.most_common():
        print(f"{name:16s} {total:7.0f}")
    total, spent = by_policy.total(), time.process_time() - began
    print(f"{total / 60:.0f} CPU minutes for all runs; the estimate, with compiling, took {spent / 60:.0f}")


def write_report(folder: Path) -> None:
    """Write regret.md with its table regret-problems.csv, regret.csv, regret.png and regret.svg.

    Problems without results of the subject or of any other policy are left out.
    """
    results = [result for result in read_results(folder) if result.has_comparison]
    if not results:
        print(f"No page: no problem has results of {SUBJECT} and of another policy.")
        return
    (folder / "regret.md").write_text(markdown(results), encoding="utf-8")
    with (folder / "regret-problems.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(problem_rows(results))
    write_csv(results, folder / "regret.csv")
    draw(results, folder)
    print(f"Written: {folder}/regret.md, regret-problems.csv, regret.csv, regret.png and regret.svg")
