"""`glb simulate`: play policies on a synthetic problem, with a table, a figure and a file of results."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.common_options import JobsOption, OutOption, ReferenceOption, parse_jobs, prepare_out_folder
from glbandits.cli.printed_table import print_table
from glbandits.cli.progress import work_bar
from glbandits.common.display.charts import save_chart
from glbandits.common.display.data_table import DataTable
from glbandits.common.errors import GlbanditsError, InvalidInput, check_int, lookup
from glbandits.lab.environments import Environment, Synthetic
from glbandits.lab.experiments import SimulatedComparison, compare, write_results
from glbandits.lab.experiments.named_environments import default_link, make_environment
from glbandits.lab.experiments.paired_differences import SIMULTANEOUS
from glbandits.policies.parsing import parse_policy_or_agent, split_policy


def simulate_command(
    policy: Annotated[
        list[str],
        typer.Option(metavar="POLICY", help="A policy, optionally with settings: sgd-ts:step=0.5. Repeat for more."),
    ] = ["optimist", "sgd-ts", "uniform"],  # noqa: B006
    environment: Annotated[
        str,
        typer.Option(
            metavar="ENVIRONMENT",
            help="synthetic, forest-cover, news, prices, or a class of yours, with its settings: "
            "synthetic:dim=20,arms=50,link=probit, or mine:Drift:speed=0.1.",
        ),
    ] = "synthetic",
    horizon: Annotated[int, typer.Option(help="Number of rounds of a run (T).")] = 1000,
    seeds: Annotated[int, typer.Option(help="Number of runs of each policy. Each seed is a different problem.")] = 100,
    reference: ReferenceOption = None,
    out: OutOption = Path("out/simulate"),
    jobs: JobsOption = "-1",
) -> None:
    """Play policies on a simulated problem, by default the synthetic one of the paper, and plot their regret.

    Its 100 arms have 6 features. Features and theta* are uniform in [-1/sqrt(d), 1/sqrt(d)], different for each seed.
    All policies play the same rounds under the same seed. Policies with a setting `horizon` receive the horizon, as in
    the paper.
    """
    workers = parse_jobs(jobs)
    check_int("seeds", seeds, at_least=1)
    check_int("horizon", horizon, at_least=1)  # policies receive it, and would report it as their setting
    problem = _problem(environment)
    policies = {text: parse_policy_or_agent(text, horizon=horizon, link=default_link(problem)) for text in policy}
    if reference is not None:
        lookup("policy as reference", reference, policies)
    if len(policies) < len(policy):
        raise InvalidInput(f"each policy can be named once; got {', '.join(policy)}")

    console = Console()
    with work_bar(console) as bar:
        comparison = compare(policies, problem, horizon, seeds, jobs=workers.jobs, engine=workers.engine, progress=bar)
    print_table(console, _table(comparison, reference))
    prepare_out_folder(out)
    png, svg, pdf = save_chart(comparison.plot(_title(environment, problem, horizon)), out, "regret")
    path = write_results(comparison, out, reference=reference)
    console.print(
        f"Results: {path} (and summary.json)\nFigure: {png} (and {svg.name}, {pdf.name})", soft_wrap=True, markup=False
    )


def _problem(text: str) -> Environment:
    name, settings = split_policy(text)
    try:
        return make_environment(name, settings, f"--environment {text}")
    except GlbanditsError as error:
        error.field = "environment"  # not the option with the name of a setting, such as --horizon
        raise


def _title(text: str, problem: Environment, horizon: int) -> str:
    if not isinstance(problem, Synthetic):
        return f"{text}: T={horizon}, d={problem.dim}"
    fixed = " fixed" if problem.fixed_arms else ""
    return f"Synthetic problem, {problem.link} link: T={horizon}, K={problem.arms}{fixed}, d={problem.dim}"


def _table(comparison: SimulatedComparison, reference: str | None) -> DataTable:
    columns = ["policy", "mean regret", "standard error", "seconds per run", "microseconds per round"]
    rows = [
        [
            label,
            f"{result.mean[-1]:.2f}",
            f"{result.standard_error[-1]:.2f}",
            f"{result.seconds.mean():.5f}",
            f"{result.seconds.mean() / result.horizon * 1e6:.2f}",
        ]
        for label, result in comparison.items()
    ]
    if reference is None:
        return DataTable(columns, rows, title="Final regret, and CPU time of the policy alone")
    differences = comparison.differences(reference)
    for row in rows:
        row.append(differences[row[0]].text(2) if row[0] in differences else "the reference")
    columns.append(f"minus {reference} \u00b1 95\u00a0%")
    return DataTable(columns, rows, title="Final regret, and CPU time of the policy alone", notes=(SIMULTANEOUS,))
