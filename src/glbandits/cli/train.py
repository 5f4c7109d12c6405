"""`glb train`: a model that has learned all rewards of a log, with the feature map that it needs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.log_file import feature_options, said_as_options
from glbandits.cli.log_options import (
    ArmOption,
    ArmsOption,
    ArmTableOption,
    BlockOption,
    ClusterOption,
    ContextOption,
    CrossesOption,
    FeaturesOption,
    FormatOption,
    HashWidthOption,
    KindOption,
    LinkOption,
    LogArgument,
    LoopOption,
    MissingOption,
    PerArmOption,
    RewardOption,
    SparseOption,
    opened_log,
)
from glbandits.cli.policy_text import parse_policy
from glbandits.cli.progress import work_bar
from glbandits.evaluation import train


def train_command(
    log: LogArgument,
    policy: Annotated[str, typer.Option(help="A policy, with settings if you like: sgd-ts:step=0.5")] = "optimist",
    file_format: FormatOption = "auto",
    loop: LoopOption = "default",
    arm: ArmOption = "arm",
    reward: RewardOption = "reward",
    context: ContextOption = "",
    per_arm: PerArmOption = "",
    arms: ArmsOption = None,
    features: FeaturesOption = None,
    cluster: ClusterOption = None,
    arm_table: ArmTableOption = None,
    link: LinkOption = None,
    kind: KindOption = [],  # noqa: B006
    missing: MissingOption = None,
    crosses: CrossesOption = None,
    per_arm_block: BlockOption = False,
    sparse: SparseOption = None,
    hash_width: HashWidthOption = None,
    seed: Annotated[int, typer.Option(help="Of the decisions that the model will make.")] = 0,
    out: Annotated[Path, typer.Option(help="The file for the model.")] = Path("model.safetensors"),
) -> None:
    """Train a model on all rows of a log, and save it with the feature map of the log's columns.

    Python continues with `Bandit.load`, and a server with `glb serve --model`.
    """
    console = Console(emoji=False)
    opened, _ = opened_log(
        console,
        log=log,
        file_format=file_format,
        loop=loop,
        arm=arm,
        reward=reward,
        propensity=None,
        probabilities="",
        context=context,
        per_arm=per_arm,
        arms=arms,
        features=features,
        cluster=cluster,
        arm_table=arm_table,
        link=link,
        estimate_propensities=False,
        options=feature_options(kind, missing, crosses, per_arm_block, sparse),
        hash_width=hash_width,
    )
    settings = parse_policy(policy, link=next(iter(opened.blocks(1))).link, horizon=max(1, len(opened)))
    with said_as_options(), work_bar(console) as bar:
        bar(f"{settings.name} learns (compiling, if this is the first run)", 0, 1)
        bandit = train(
            opened,
            settings,
            seed=seed,
            progress=lambda done, total: bar(f"{settings.name} learns", done, total),
        )
    if opened.feature_map is not None:
        console.print(str(opened.feature_map), soft_wrap=True, markup=False, highlight=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    bandit.save(out)
    console.print(f"Model: {out} ({len(opened):,} rows learned)", soft_wrap=True, markup=False, highlight=False)
