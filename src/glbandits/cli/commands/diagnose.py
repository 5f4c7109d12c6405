"""`glb diagnose`: the assumptions and the bound of the SGD-TS theory, for a sample of contexts."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.common_options import LINK_NAMES
from glbandits.cli.printed_table import print_table
from glbandits.common.display.data_table import DataTable
from glbandits.lab.experiments.context_files import read_contexts
from glbandits.lab.experiments.diagnosis import Diagnosis, diagnose


def diagnose_command(
    contexts: Annotated[
        Path,
        typer.Argument(
            help="An .npy file of shape (rounds, arms, dim), or a .parquet or .csv file with a column round."
        ),
    ],
    link: Annotated[str, typer.Option(help=f"{LINK_NAMES}.")] = "logistic",
    theta_norm: Annotated[float, typer.Option(help="The assumed norm of theta*.")] = 1.0,
    horizon: Annotated[int, typer.Option(help="Number of rounds (T).")] = 1000,
    seeds: Annotated[int, typer.Option(help="Number of measured runs.")] = 20,
) -> None:
    """Check whether the theory of SGD-TS covers a run on these contexts.

    Prints the constants, the warm-up and the regret bound of the theory, beside the measured regret.
    """
    console = Console()
    with console.status("estimating the constants and measuring regret"):
        diagnosis = diagnose(read_contexts(contexts), link=link, theta_norm=theta_norm, horizon=horizon, seeds=seeds)
    print_table(console, _table(diagnosis))
    console.print(diagnosis.verdict, soft_wrap=True, highlight=False)
    console.print(diagnosis.practical_note, soft_wrap=True, highlight=False)


def _table(diagnosis: Diagnosis) -> DataTable:
    rounds, arms, dim = diagnosis.shape
    constants = diagnosis.constants
    none = "not defined"
    rows = [
        (
            "largest ||x||",
            f"{diagnosis.largest_norm:.4g}",
            "features are divided by it, as the analysis assumes norm 1",
        ),
        ("sigma_0^2", f"{diagnosis.sigma_0_squared:.3g}", "smallest eigenvalue of the mean of xx' over all arms"),
        (
            "lambda_f",
            f"{diagnosis.lambda_f:.3g} +- {diagnosis.lambda_f_error:.2g}",
            "the same for the highest-scoring arms of a theta; the smallest over all thetas tried",
        ),
        (
            "c1",
            none if constants is None else f"{constants.c1:.3g}",
            "smallest slope of the link within distance 1 of theta*",
        ),
        ("c3", none if constants is None else f"{constants.c3:.3g}", "the same within distance 3"),
        (
            "alpha",
            none if diagnosis.alpha is None else f"{diagnosis.alpha:.3g}",
            "strong convexity of the loss of a block",
        ),
        (
            "tau",
            none if diagnosis.block_length is None else f"{diagnosis.block_length:,}",
            f"warm-up and block length of the theory, against T = {diagnosis.horizon:,}",
        ),
        ("practical tau", f"{diagnosis.practical_block_length:,}", "block length of the default settings of SGD-TS"),
        (
            "bound",
            none if diagnosis.bound is None else f"{diagnosis.bound:.3g}",
            "Theorem 1, with its universal constants taken as 1",
        ),
        (
            "measured",
            f"{diagnosis.measured:.1f} +- {diagnosis.measured_error:.1f}",
            "regret of SGD-TS with its default settings",
        ),
        ("uniform", f"{diagnosis.uniform:.1f}", "regret of random play"),
    ]
    title = f"{rounds} rounds of {arms} arms with {dim} features"
    return DataTable(("quantity", "value", "meaning"), rows, ("meaning",), title)
