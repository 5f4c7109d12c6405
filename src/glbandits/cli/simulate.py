"""`glb simulate`: policies on a synthetic problem, with a table, a picture and a file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from glbandits.cli.policy_text import parse_policy
from glbandits.cli.progress import work_bar
from glbandits.environments import Synthetic
from glbandits.errors import InvalidInput, check_int, lookup
from glbandits.experiments import FORMATS, Comparison, compare, draw_regret


def simulate_command(
    policy: Annotated[list[str], typer.Option(help="A policy, with settings if you like: sgd-ts:step=0.5")] = [  # noqa: B006
        "optimist",
        "sgd-ts",
        "uniform",
    ],
    horizon: Annotated[int, typer.Option(help="Rounds in a run (T).")] = 1000,
    seeds: Annotated[int, typer.Option(help="Runs for each policy, each on a problem of its own.")] = 100,
    first_seed: Annotated[int, typer.Option(help="The first of these seeds.")] = 0,
    dim: Annotated[int, typer.Option(help="Features of an arm (d).")] = 6,
    arms: Annotated[int, typer.Option(help="Arms in a round (K).")] = 100,
    fixed_arms: Annotated[bool, typer.Option("--fixed-arms", help="The same arms in every round of a run.")] = False,
    theta_norm: Annotated[float | None, typer.Option(help="Scale theta* to this length.")] = None,
    link: Annotated[str, typer.Option(help="identity, logistic, probit or log.")] = "logistic",
    rewards: Annotated[
        str, typer.Option(help="bernoulli, gaussian or poisson; natural takes the one for the link.")
    ] = "natural",
    out: Annotated[Path, typer.Option(help="The folder for the picture and the results.")] = Path("out/simulate"),
    file_format: Annotated[str, typer.Option("--format", help="Of the results: parquet or csv.")] = "parquet",
    jobs: Annotated[int, typer.Option(help="Runs at once; -1 for one per core.")] = -1,
) -> None:
    """Play policies on the paper's synthetic problem and draw their regret.

    Features and theta* are uniform in [-1/sqrt(d), 1/sqrt(d)], new for every seed. All policies face the same
    rounds under the same seed. A policy that can use the horizon is told it, as in the paper.
    """
    check_int("--seeds", seeds, at_least=1)
    write = lookup("format", file_format, FORMATS)
    problem = Synthetic(dim=dim, arms=arms, fixed_arms=fixed_arms, theta_norm=theta_norm, link=link, rewards=rewards)
    played = {text: parse_policy(text, horizon=horizon, link=link) for text in policy}
    if len(played) < len(policy):
        raise InvalidInput(f"each policy can be named once; got {', '.join(policy)}")

    console = Console()
    with work_bar(console) as bar:
        rounds = 0

        def report(label: str, just_played: int) -> None:
            nonlocal rounds
            rounds += just_played
            waiting = "" if just_played else " (compiling, if this is the first run)"
            bar(label + waiting, rounds, horizon * seeds * len(played))

        comparison = compare(
            played, problem, horizon, range(first_seed, first_seed + seeds), jobs=jobs, progress=report
        )
    console.print(_table(comparison))
    out.mkdir(parents=True, exist_ok=True)
    title = f"Synthetic problem, {link} link: T={horizon}, K={arms}{' fixed' if fixed_arms else ''}, d={dim}"
    png, svg = draw_regret(comparison, out, title)
    path = write(comparison, out)
    console.print(f"Results: {path}\nPicture: {png} (and {svg.name})", soft_wrap=True, markup=False)


def _table(comparison: Comparison) -> Table:
    table = Table(title="Regret at the end, and CPU time of the policy itself")
    for column in ("policy", "mean regret", "standard error", "seconds a run", "microseconds a round"):
        table.add_column(column, justify="left" if column == "policy" else "right", overflow="fold")
    for label, result in comparison.items():
        seconds = float(result.seconds.mean())
        table.add_row(
            escape(label),
            f"{result.mean[-1]:.2f}",
            f"{result.standard_error[-1]:.2f}",
            f"{seconds:.5f}",
            f"{seconds / result.horizon * 1e6:.2f}",
        )
    return table
