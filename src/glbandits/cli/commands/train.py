"""`glb train`: train a model on a log, and save it with its feature map."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.candidates import PolicyOption, fit_notes, parse_learning_policy
from glbandits.cli.common_options import prepare_out_file
from glbandits.cli.log_options import LogArguments, with_log_options
from glbandits.cli.progress import work_bar
from glbandits.common.errors import InvalidInput
from glbandits.evaluation import train
from glbandits.policies.agents import AgentFactory


@with_log_options
def train_command(
    *,
    policy: PolicyOption = "optimist",
    options: LogArguments,
    seed: Annotated[int, typer.Option(help="Seed of the decisions that the model will make.")] = 0,
    out: Annotated[Path, typer.Option(help="The file for the model.")] = Path("model.safetensors"),
) -> None:
    """Train a model on all rows of a log, and save it with the feature map of the log's columns.

    Training needs no propensities: the options of propensities and probabilities are accepted, and have no effect. In
    Python, load the model with `Bandit.load`. `glb decide` decides for a table, and `glb serve --model` serves it.
    """
    console = Console(emoji=False)
    log, notes = options.open(console, with_propensities=False)
    settings = parse_learning_policy(policy, log)
    if isinstance(settings, AgentFactory):
        raise InvalidInput(
            f"an agent has no model file; got {policy}. Train it in Python: glbandits.evaluation.train(log, "
            f"{settings.name})"
        )
    prepare_out_file(out)
    with work_bar(console) as bar:
        bar(f"{settings.name} learns", 0, 1)
        bandit = train(
            log, settings, seed=seed, progress=lambda done, total: bar(f"{settings.name} learns", done, total)
        )
    if log.feature_map is not None:
        console.print(str(log.feature_map), soft_wrap=True, markup=False, highlight=False)
    for note in notes:
        console.print(f"Note: {note}", soft_wrap=True, markup=False, highlight=False)
    bandit.save(out)
    for note in fit_notes([policy]):
        console.print(f"Note: {note}", soft_wrap=True, markup=False, highlight=False)
    console.print(f"Model: {out} ({len(log):,} rows learned)", soft_wrap=True, markup=False, highlight=False)
