"""`glb slates`: estimate the reward of each slate under other policies, from a log with a row for each slot."""

from typing import Annotated, Any

import typer
from rich.console import Console

from glbandits.cli.candidates import CandidatesOption, ModelsOption, features_of_models, parse_candidates
from glbandits.cli.common_options import LevelOption, LoopOption, SeedOption
from glbandits.cli.log_options import ArmOption, LinkOption, LogArgument, RewardOption, TrainOption
from glbandits.common.errors import lookup
from glbandits.evaluation import SLATE_ESTIMATORS, Columns
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL
from glbandits.evaluation.evaluate_slates import compare_on_slates
from glbandits.service.export.log_source import open_log_or_store

ASSUMPTIONS = (
    "slate-ips and rips are valid if slots are filled one after the other, as the service does; "
    "iips and pi only if slots are filled independently."
)


def slates_command(
    log: LogArgument,
    *,
    policy: CandidatesOption = ["optimist", "uniform"],  # noqa: B006
    estimator: Annotated[list[str], typer.Option(help=f"One of {', '.join(SLATE_ESTIMATORS)}. Repeat for more.")] = [  # noqa: B006
        *SLATE_ESTIMATORS
    ],
    model: ModelsOption = [],  # noqa: B006
    loop: LoopOption = "default",
    arm: ArmOption = "arm",
    reward: RewardOption = "reward",
    link: LinkOption = None,
    propensity: Annotated[str, typer.Option(help="Column with the probability of the chosen arm.")] = "propensity",
    features: Annotated[str, typer.Option(help="Column with a list of numbers for each arm of the row.")] = "features",
    slate: Annotated[
        str, typer.Option(help="Column of the slate. Rows with the same value are its slots.")
    ] = "event_id",
    self_normalised: Annotated[
        bool, typer.Option("--self-normalised", help="Divide by the mean coefficient of each slot.")
    ] = False,
    train: TrainOption = 0.5,
    level: LevelOption = DEFAULT_LEVEL,
    seed: SeedOption = 0,
) -> None:
    """Estimate the reward of each slate under other policies: the sum over its slots.

    The log has a row for each slot, and the rows of a slate are in the order in which its slots were filled. An export
    of multi-slot events is such a log. In slots that do not offer the arm, `arm:NAME` decides as the logging policy
    did. If a policy learns, all policies are evaluated on the slates that it did not learn.
    """
    for name in estimator:
        lookup("estimator of slates", name, SLATE_ESTIMATORS)
    console = Console(emoji=False)
    columns = Columns(
        arm=arm,
        reward=reward,
        propensity=propensity,
        probabilities=None,
        features=features,
        cluster=slate,
    )
    own: dict[str, Any] = {} if link is None else {"link": link}
    with console.status("reading the log"):
        opened = open_log_or_store(log, columns, loop=loop, **features_of_models(model), **own)
    candidates = parse_candidates(policy, model, opened, train_share=train)
    evaluated = compare_on_slates(
        opened, candidates, estimator, train_share=train, self_normalised=self_normalised, level=level, seed=seed
    )
    verdicts = ["Verdict:"]
    for label, evaluation in evaluated:
        verdicts.append(evaluation.verdict(label))
        console.print(f"{label}\n{evaluation}\n", soft_wrap=True, markup=False, highlight=False)
    console.print(f"Note: {ASSUMPTIONS}", soft_wrap=True, markup=False, highlight=False)
    console.print("\n".join(verdicts), soft_wrap=True, markup=False, highlight=False)
