"""Candidates as options name them: policies such as `sgd-ts:step=0.5`, `uniform`, `arm:NAME`, and saved models."""

from collections.abc import Sequence
from pathlib import Path

from glbandits.bandit import Bandit
from glbandits.errors import InvalidInput, lookup
from glbandits.evaluation import Log
from glbandits.evaluation.estimators.targets import AlwaysTarget, UniformTarget
from glbandits.evaluation.log_readers.log_features import LogOptions
from glbandits.evaluation.logs.logged_data import link_of
from glbandits.evaluation.policy_comparison import Candidate
from glbandits.features import FeatureMap
from glbandits.policy import Policy
from glbandits.policy_parsing import parse_policy

ARM = "arm:"


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
    """Return the feature map of the first saved model that has one. The log must be read with it."""
    for bandit in map(Bandit.load, models):
        if isinstance(bandit.features, FeatureMap):
            return LogOptions(features=bandit.features, sparse=bandit.sparse)
    return LogOptions()


def _parse_candidate(text: str, log: Log, train_share: float) -> Candidate:
    if text == "uniform":
        return UniformTarget()
    if text.startswith(ARM):
        if log.arm_names is None:
            raise InvalidInput(
                f"{text} needs a log whose arms have names. In this log each row has its own arms, so evaluate it in "
                "Python, with the probabilities of all arms as the target"
            )
        indices = {name: index for index, name in enumerate(log.arm_names)}
        return AlwaysTarget(lookup("arm", text.removeprefix(ARM), indices))
    return parse_learning_policy(text, log, train_share=train_share)
