"""`glb diagnose`: what the paper's theory assumes and guarantees for a sample of contexts."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from glbandits.experiments.context_files import read_contexts
from glbandits.experiments.diagnosis import Diagnosis, diagnose


def diagnose_command(
    contexts: Annotated[
        Path, typer.Argument(help=".npy (rounds, arms, dim), or .parquet or .csv with a column round.")
    ],
    link: Annotated[str, typer.Option(help="identity, logistic, probit or log.")] = "logistic",
    theta_norm: Annotated[float, typer.Option(help="The length of theta* that is assumed.")] = 1.0,
    horizon: Annotated[int, typer.Option(help="Rounds (T).")] = 1000,
    seeds: Annotated[int, typer.Option(help="Runs that are measured.")] = 20,
) -> None:
    """Does the theory of SGD-TS cover a run on these contexts? Constants, warm-up and bound, beside measured regret."""
    console = Console()
    with console.status("estimating the constants and measuring regret"):
        found = diagnose(read_contexts(contexts), link=link, theta_norm=theta_norm, horizon=horizon, seeds=seeds)
    console.print(_table(found))
    console.print(found.verdict, soft_wrap=True, highlight=False)
    console.print(found.practical_note, soft_wrap=True, highlight=False)


def _table(found: Diagnosis) -> Table:
    rounds, arms, dim = found.shape
    table = Table(title=f"{rounds} rounds of {arms} arms with {dim} features", title_justify="left")
    table.add_column("what")
    table.add_column("value", justify="right")
    table.add_column("meaning")
    constants = found.constants
    none = "not defined"
    for what, value, meaning in (
        ("largest ||x||", f"{found.largest_norm:.4g}", "features are divided by it, as the analysis assumes norm 1"),
        ("sigma_0^2", f"{found.sigma_0_squared:.3g}", "least eigenvalue of the mean xx' of all arms"),
        (
            "lambda_f",
            f"{found.lambda_f:.3g} +- {found.lambda_f_error:.2g}",
            "the same for the arms that a theta scores highest; the worst theta found",
        ),
        ("c1", none if constants is None else f"{constants.c1:.3g}", "least slope of the link within 1 of theta*"),
        ("c3", none if constants is None else f"{constants.c3:.3g}", "and within 3"),
        ("alpha", none if found.alpha is None else f"{found.alpha:.3g}", "strong convexity of a block's loss"),
        (
            "tau",
            none if found.block_length is None else f"{found.block_length:,}",
            f"warm-up and block length of the theory, against T = {found.horizon:,}",
        ),
        ("practical tau", f"{found.practical_block_length:,}", "block length of the default settings of SGD-TS"),
        (
            "bound",
            none if found.bound is None else f"{found.bound:.3g}",
            "Theorem 1, with its universal constants taken as 1",
        ),
        (
            "measured",
            f"{found.measured:.1f} +- {found.measured_error:.1f}",
            "regret of SGD-TS with its default settings",
        ),
        ("uniform", f"{found.uniform:.1f}", "regret of uniform play"),
    ):
        table.add_row(what, value, meaning)
    return table
