"""Options that name policies and saved models: `sgd-ts:step=0.5`, `uniform`, `arm:NAME`, `column:NAME`, files."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from glbandits.bandit import Bandit
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.estimators.targets import ARM_PREFIX, COLUMN_PREFIX, as_target
from glbandits.evaluation.learning.log_player import log_settings
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.policy_comparison import Candidate
from glbandits.features import FeatureMap
from glbandits.policies.agents import PolicyOrAgent
from glbandits.policies.parsing import parse_policy_or_agent

ONLINE_NOTE = (
    "on a log, epsilon-greedy learns with fit=online, one step for each row. epsilon-greedy:fit=exact fits all rows "
    "again at each row, which takes minutes"
)

PolicyOption: TypeAlias = Annotated[
    str, typer.Option(metavar="POLICY", help="A policy, optionally with settings: sgd-ts:step=0.5.")
]
CandidatesOption: TypeAlias = Annotated[
    list[str],
    typer.Option(
        metavar="POLICY",
        help="A policy, optionally with settings: sgd-ts:step=0.5. Or uniform, arm:NAME or column:NAME. Repeat for "
        "more.",
    ),
]
ModelOption: TypeAlias = Annotated[
    Path, typer.Option(help="A file with a saved model, of `glb train` or Bandit.save. It is not changed.")
]
ModelsOption: TypeAlias = Annotated[
    list[Path],
    typer.Option(
        help="A file with a saved model, of `glb train` or Bandit.save. It does not learn from the log. Repeat for "
        "more."
    ),
]


def parse_candidates(
    texts: Sequence[str], models: Sequence[Path], log: Log, *, train_share: float
) -> dict[str, Candidate]:
    """Return each candidate by its text. Raises InvalidInput if a text is given twice.

    A policy that has no link and no horizon in its text gets the link of the log and the number of rows that it will
    learn.
    """
    labels = [*texts, *map(str, models)]
    if len(set(labels)) < len(labels):
        raise InvalidInput(f"each policy can be named once; got {', '.join(labels)}")
    candidates = {text: _parse_candidate(text, log, train_share) for text in texts}
    return candidates | {str(path): Bandit.load(path) for path in models}


def proposed_columns(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the candidates column:NAME."""
    return tuple(dict.fromkeys(text.removeprefix(COLUMN_PREFIX) for text in texts if text.startswith(COLUMN_PREFIX)))


def parse_learning_policy(text: str, log: Log, *, train_share: float = 1.0) -> PolicyOrAgent:
    """Return the policy or agents of a text, with the link of the log and the number of rows to learn as defaults."""
    horizon = max(1, round(train_share * len(log)))
    return parse_policy_or_agent(text, link=log.schema.link, horizon=horizon, **log_settings(text))


def fit_notes(texts: Iterable[str]) -> list[str]:
    """Return a note if a policy gets another fit than in Python, because of the log."""
    return [ONLINE_NOTE] if any(map(log_settings, texts)) else []


def features_of_models(models: Sequence[Path]) -> dict[str, Any]:
    """Return the feature map of the saved models as settings with which the log must be read.

    Raises InvalidInput if two models have different feature maps.
    """
    settings, first = dict[str, Any](), Path()
    for path, bandit in zip(models, map(Bandit.load, models), strict=True):
        if not isinstance(bandit.features, FeatureMap):
            continue
        if not settings:
            settings, first = {"features": bandit.features, "sparse": bandit.sparse}, path
        elif bandit.features != settings["features"]:
            raise InvalidInput(f"the models {first} and {path} have different feature maps. Evaluate one at a time")
    return settings


def _parse_candidate(text: str, log: Log, train_share: float) -> Candidate:
    if text == "uniform" or text.startswith((ARM_PREFIX, COLUMN_PREFIX)):
        return as_target(text, log)
    return parse_learning_policy(text, log, train_share=train_share)
