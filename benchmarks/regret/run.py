"""The whole benchmark: problem after problem, with everything written anew after each."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.regret.figure import draw
from benchmarks.regret.play import Scope, play
from benchmarks.regret.problems import PROBLEMS, Problem
from benchmarks.regret.results import ProblemResult
from benchmarks.regret.tables import console_table, markdown, write_csv
from glbandits.cli.progress import work_bar
from glbandits.errors import look_up

FOLDER = Path("out/regret")


def report(names: Sequence[str] = ()) -> None:
    """Play these problems, or all; print each as it comes, and write regret.md, regret.csv and the picture."""
    asked = [look_up("problem", name, PROBLEMS) for name in names] or list(PROBLEMS.values())
    run(asked, Scope(FOLDER))
    print((FOLDER / "regret.md").read_text(encoding="utf-8"))
    print(f"Written: {FOLDER}/regret.md, regret.csv, regret.png and regret.svg")


def run(problems: Sequence[Problem], scope: Scope) -> list[ProblemResult]:
    """Play the problems one after another; what is written so far is whole after each."""
    scope.folder.mkdir(parents=True, exist_ok=True)
    results: list[ProblemResult] = []
    for problem in problems:
        with work_bar(Console(stderr=True)) as bar:
            results.append(play(problem, scope, bar))
        print(console_table(results[-1]), end="\n\n", flush=True)
        (scope.folder / "regret.md").write_text(markdown(results, scope.full, scope.less), encoding="utf-8")
        write_csv(results, scope.folder / "regret.csv")
        draw(results, scope.folder)
    return results
