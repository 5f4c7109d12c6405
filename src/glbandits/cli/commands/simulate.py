"""`glb simulate`: play policies on a synthetic problem, with a table, a figure and a file of results."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.common_options import LINK_NAMES, EngineOption, JobsOption, prepare_out_folder
from glbandits.cli.printed_table import print_table
from glbandits.cli.progress import work_bar
from glbandits.common.display.charts import save_chart
from glbandits.common.display.data_table import DataTable
from glbandits.common.errors import InvalidInput, check_int, lookup
from glbandits.lab.environments import Environment, Synthetic
from glbandits.lab.experiments import TABLE_FORMATS, SimulatedComparison, compare, write_results
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
            help="synthetic, forest-cover, prices, or a class of yours, with its settings: mine:Drift:speed=0.1.",
        ),
    ] = "synthetic",
    horizon: Annotated[int, typer.Option(help="Number of rounds of a run (T).")] = 1000,
    seeds: Annotated[int, typer.Option(help="Number of runs per policy. Each seed is a different problem.")] = 100,
    first_seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
    dim: Annotated[int, typer.Option(help="Number of features (d).")] = 6,
    arms: Annotated[int, typer.Option(help="Number of arms per round (K).")] = 100,
    fixed_arms: Annotated[
        bool, typer.Option("--fixed-arms", help="Use the same arms in every round of a run.")
    ] = False,
    theta_norm: Annotated[float | None, typer.Option(help="Scale theta* to this norm.")] = None,
    link: Annotated[str, typer.Option(help=f"{LINK_NAMES}.")] = "logistic",
    rewards: Annotated[
        str, typer.Option(help="bernoulli, gaussian or poisson; natural for the distribution that fits the link.")
    ] = "natural",
    reference: Annotated[
        str | None, typer.Option(metavar="POLICY", help="Compare all other policies with this one, as named above.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the figure and the results.")] = Path("out/simulate"),
    file_format: Annotated[str, typer.Option("--format", help="Format of the results: parquet or csv.")] = "parquet",
    jobs: JobsOption = -1,
    engine: EngineOption = "local",
) -> None:
    """Play policies on a simulated problem, by default the synthetic one of the paper, and plot their regret.

    Its features and theta* are uniform in [-1/sqrt(d), 1/sqrt(d)], different for each seed. All policies play the same
    rounds under the same seed. Policies with a setting `horizon` receive the horizon, as in the paper.
    """
    check_int("seeds", seeds, at_least=1)
    check_int("horizon", horizon, at_least=1)  # policies receive it, and would report it as their setting
    lookup("format", file_format, TABLE_FORMATS)
    problem: Environment
    synthetic = Synthetic(dim=dim, arms=arms, fixed_arms=fixed_arms, theta_norm=theta_norm, link=link, rewards=rewards)
    if environment == "synthetic":
        problem = synthetic
        title = f"Synthetic problem, {link} link: T={horizon}, K={arms}{' fixed' if fixed_arms else ''}, d={dim}"
    else:
        if synthetic != Synthetic():
            raise InvalidInput(
                "--dim, --arms, --fixed-arms, --theta-norm, --link and --rewards are for the synthetic problem; got "
                f"--environment {environment}. Write its settings after its name: mine:Drift:speed=0.1"
            )
        name, settings = split_policy(environment)
        problem = make_environment(name, settings, f"--environment {environment}")
        title = f"{environment}: T={horizon}, d={problem.dim}"
    policies = {text: parse_policy_or_agent(text, horizon=horizon, link=default_link(problem)) for text in policy}
    if reference is not None:
        lookup("policy as reference", reference, policies)
    if len(policies) < len(policy):
        raise InvalidInput(f"each policy can be named once; got {', '.join(policy)}")

    console = Console()
    with work_bar(console) as bar:
        numbers = range(first_seed, first_seed + seeds)
        comparison = compare(policies, problem, horizon, numbers, jobs=jobs, engine=engine, progress=bar)
    print_table(console, _table(comparison, reference))
    prepare_out_folder(out)
    png, svg, pdf = save_chart(comparison.plot(title), out, "regret")
    path = write_results(comparison, out, file_format, reference=reference)
    console.print(
        f"Results: {path} (and summary.json)\nFigure: {png} (and {svg.name}, {pdf.name})", soft_wrap=True, markup=False
    )


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
