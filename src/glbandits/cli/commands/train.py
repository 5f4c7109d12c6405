"""`glb train`: train a model on a log, and save it with its feature map."""

from pathlib import Path

from rich.console import Console

from glbandits.cli.candidates import PolicyOption, fit_notes, parse_learning_policy
from glbandits.cli.common_options import LoopOption, SeedOption, ToOption, prepare_file
from glbandits.cli.log_options import (
    ArmOption,
    ArmsOption,
    ArmTableOption,
    ContextOption,
    CrossesOption,
    FeaturesOption,
    KindOption,
    LinkOption,
    LogArgument,
    LogOptions,
    RewardOption,
    TimeOption,
)
from glbandits.cli.progress import work_bar
from glbandits.common.errors import InvalidInput
from glbandits.evaluation import train
from glbandits.policies.agents import AgentFactory


def train_command(
    log: LogArgument,
    *,
    policy: PolicyOption = "optimist",
    loop: LoopOption = "default",
    arm: ArmOption = "arm",
    reward: RewardOption = "reward",
    link: LinkOption = None,
    context: ContextOption = [],  # noqa: B006
    arms: ArmsOption = None,
    features: FeaturesOption = None,
    time: TimeOption = None,
    arm_table: ArmTableOption = None,
    kind: KindOption = [],  # noqa: B006
    crosses: CrossesOption = [],  # noqa: B006
    seed: SeedOption = 0,
    to: ToOption = Path("model.safetensors"),
) -> None:
    """Train a model on all rows of a log, and save it with the feature map of the log's columns.

    Training needs no propensities. In Python, load the model with `Bandit.load`. `glb decide` decides for a table, and
    `glb serve --model` serves it.
    """
    console = Console(emoji=False)
    options = LogOptions(
        log=log,
        loop=loop,
        arm=arm,
        reward=reward,
        link=link,
        context=context,
        arms=arms,
        features=features,
        time=time,
        arm_table=arm_table,
        kind=kind,
        crosses=crosses,
    )
    opened, notes = options.open(console, with_propensities=False)
    settings = parse_learning_policy(policy, opened)
    if isinstance(settings, AgentFactory):
        raise InvalidInput(
            f"an agent has no model file; got {policy}. Train it in Python: glbandits.evaluation.train(log, "
            f"{settings.name})"
        )
    prepare_file(to)
    with work_bar(console) as bar:
        bar(f"{settings.name} learns", 0, 1)
        bandit = train(
            opened, settings, seed=seed, progress=lambda done, total: bar(f"{settings.name} learns", done, total)
        )
    if opened.feature_map is not None:
        console.print(str(opened.feature_map), soft_wrap=True, markup=False, highlight=False)
    for note in notes:
        console.print(f"Note: {note}", soft_wrap=True, markup=False, highlight=False)
    bandit.save(to)
    for note in fit_notes([policy]):
        console.print(f"Note: {note}", soft_wrap=True, markup=False, highlight=False)
    console.print(f"Model: {to} ({len(opened):,} rows learned)", soft_wrap=True, markup=False, highlight=False)
