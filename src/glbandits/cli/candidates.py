"""Candidates as options name them: policies such as `sgd-ts:step=0.5`, `uniform`, `arm:NAME`, and saved models."""

from collections.abc import Sequence
from pathlib import Path

from glbandits.bandit import Bandit
from glbandits.common.errors import InvalidInput
from glbandits.evaluation import Log
from glbandits.evaluation.estimators.targets import ARM, as_target
from glbandits.evaluation.logs.logged_data import link_of
from glbandits.evaluation.policy_comparison import Candidate
from glbandits.evaluation.readers.table_layout import LogOptions
from glbandits.features import FeatureMap
from glbandits.policies.contract import Policy
from glbandits.policies.parsing import parse_policy


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


def parse_learning_policy(text: str, log: Log, *, train_share: float = 1.0) -> Policy:
    """Return the policy of a text, with the link of the log and the number of rows to learn as defaults."""
    return parse_policy(text, link=link_of(log), horizon=max(1, round(train_share * len(log))))


def features_of_models(models: Sequence[Path]) -> LogOptions:
    """Return the feature map of the saved models, with which the log must be read.

    Raises InvalidInput if two models have different feature maps.
    """
    options, first = LogOptions(), Path()
    for path, bandit in zip(models, map(Bandit.load, models), strict=True):
        if not isinstance(bandit.features, FeatureMap):
            continue
        if "features" not in options:
            options, first = LogOptions(features=bandit.features, sparse=bandit.sparse), path
        elif bandit.features != options["features"]:
            raise InvalidInput(f"the models {first} and {path} have different feature maps. Evaluate one at a time")
    return options


def _parse_candidate(text: str, log: Log, train_share: float) -> Candidate:
    if text == "uniform" or text.startswith(ARM):
        return as_target(text, log)
    return parse_learning_policy(text, log, train_share=train_share)
