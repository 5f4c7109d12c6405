"""Candidates as they are written on the command line: `sgd-ts:step=0.5`, `uniform`, `arm:NAME`, and saved models."""

from collections.abc import Sequence
from pathlib import Path

from glbandits.bandit import Bandit
from glbandits.cli.policy_text import parse_policy
from glbandits.errors import InvalidInput, lookup
from glbandits.evaluation.estimators.targets import AlwaysTarget, UniformTarget
from glbandits.evaluation.logs.log_features import LogOptions
from glbandits.evaluation.policy_comparison import Candidate
from glbandits.features import FeatureMap
from glbandits.maths.links import Link

ARM = "arm:"


def named_candidates(
    texts: Sequence[str],
    models: Sequence[Path],
    *,
    arm_names: tuple[str, ...] | None,
    link: str | Link,
    horizon: int,
) -> dict[str, Candidate]:
    """Each candidate by its name. Policies that want them are told the log's link and the rows they will learn.

    >>> named_candidates(["arm:b"], [], arm_names=("a", "b"), link="identity", horizon=10)
    {'arm:b': AlwaysTarget(arm=1)}
    """
    written = [*texts, *map(str, models)]
    if len(set(written)) < len(written):
        raise InvalidInput(f"each policy can be named once; got {', '.join(written)}")
    named = {text: _candidate(text, arm_names, link, horizon) for text in texts}
    return named | {str(path): Bandit.load(path) for path in models}


def features_of_models(models: Sequence[Path]) -> LogOptions:
    """The feature map of the first saved model that has one, with which the log must be read, as sparsely."""
    for bandit in map(Bandit.load, models):
        if isinstance(bandit.features, FeatureMap):
            return LogOptions(features=bandit.features, sparse=bandit.sparse)
    return LogOptions()


def _candidate(text: str, arm_names: tuple[str, ...] | None, link: str | Link, horizon: int) -> Candidate:
    if text == "uniform":
        return UniformTarget()
    if text.startswith(ARM):
        if arm_names is None:
            raise InvalidInput(f"{text} needs a log with the same arms in every row; this one's differ")
        places = {name: place for place, name in enumerate(arm_names)}
        return AlwaysTarget(lookup("arm", text.removeprefix(ARM), places))
    return parse_policy(text, link=link, horizon=horizon)
