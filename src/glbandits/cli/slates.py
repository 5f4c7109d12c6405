"""`glb slates`: what other policies would have earned for each slate, from a log with a row for each slot."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.candidates import features_of_models, named_candidates
from glbandits.cli.log_file import said_as_options
from glbandits.cli.log_options import (
    ArmOption,
    FormatOption,
    LinkOption,
    LogArgument,
    LoopOption,
    PropensityOption,
    RewardOption,
    opened_log,
)
from glbandits.errors import lookup
from glbandits.evaluation import SLATE_ESTIMATORS, Log, evaluate_slates, train
from glbandits.evaluation.logs.log_slice import split
from glbandits.policies import Policy

ASSUMPTIONS = (
    "slate-ips and rips hold if slots are filled one after the other, as the server does; "
    "iips and pi only if slots are filled independently."
)


def slates_command(
    log: LogArgument,
    policy: Annotated[
        list[str], typer.Option(help="A policy, with settings if you like: sgd-ts:step=0.5; or uniform.")
    ] = ["optimist", "uniform"],  # noqa: B006
    estimator: Annotated[list[str], typer.Option(help=f"One of {', '.join(SLATE_ESTIMATORS)}.")] = [*SLATE_ESTIMATORS],  # noqa: B006
    model: Annotated[list[Path], typer.Option(help="A saved Bandit, which is evaluated as it is.")] = [],  # noqa: B006
    file_format: FormatOption = "auto",
    loop: LoopOption = "default",
    arm: ArmOption = "arm",
    reward: RewardOption = "reward",
    propensity: PropensityOption = "propensity",
    features: Annotated[str, typer.Option(help="The column with a list of numbers for each arm.")] = "features",
    slate: Annotated[str, typer.Option(help="Rows with the same value here are the slots of a slate.")] = "event_id",
    link: LinkOption = None,
    self_normalised: Annotated[
        bool, typer.Option("--self-normalised", help="Divide by the mean coefficient of each slot.")
    ] = False,
    train_share: Annotated[float, typer.Option("--train", help="The share of slates that policies learn first.")] = 0.5,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.")] = 0,
) -> None:
    """Estimate what policies would have earned for each slate, the sum over its slots.

    The log has a row for each slot, and the rows of a slate are in the order in which its slots were filled. An export
    of multi-slot events is such a log. If a policy learns, all policies are evaluated on the slates that it did not
    learn.
    """
    for name in estimator:
        lookup("estimator of slates", name, SLATE_ESTIMATORS)
    console = Console(emoji=False)
    opened, _ = opened_log(
        console,
        log=log,
        file_format=file_format,
        loop=loop,
        arm=arm,
        reward=reward,
        propensity=propensity,
        probabilities="",
        context="",
        per_arm="",
        arms=None,
        features=features,
        cluster=slate,
        arm_table=None,
        link=link,
        estimate_propensities=False,
        options=features_of_models(model),
    )
    horizon = max(1, round(train_share * len(opened)))
    candidates = named_candidates(
        policy, model, arm_names=opened.arm_names, link=next(iter(opened.blocks(1))).link, horizon=horizon
    )
    learned: Log = opened
    rest: Log = opened
    with said_as_options():
        if any(isinstance(candidate, Policy) for candidate in candidates.values()):
            learned, rest = split(opened, train_share)
        for label, candidate in candidates.items():
            target = train(learned, candidate, seed=seed) if isinstance(candidate, Policy) else candidate
            found = evaluate_slates(rest, target, estimator, self_normalised=self_normalised, level=level)
            console.print(f"{label}\n{found}\n", soft_wrap=True, markup=False, highlight=False)
    console.print(f"Note: {ASSUMPTIONS}", soft_wrap=True, markup=False, highlight=False)
