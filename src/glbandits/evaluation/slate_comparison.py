"""Evaluate several policies on one log of slates, all on the same slates."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL
from glbandits.evaluation.estimators.targets import GivenTarget
from glbandits.evaluation.evaluate_slates import SlateEvaluation, evaluate_slates
from glbandits.evaluation.logs.log_slice import LogSlice, split
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.policy_comparison import Candidate, target_of_part
from glbandits.evaluation.replay.train import train
from glbandits.policies import Policy


class EvaluatedSlatePolicy(NamedTuple):
    """A candidate and its estimates."""

    label: str
    evaluation: SlateEvaluation


def compare_on_slates(
    log: Log,
    candidates: Mapping[str, Candidate],
    estimators: Sequence[str],
    *,
    train_share: float = 0.5,
    self_normalised: bool = False,
    level: float = DEFAULT_LEVEL,
    seed: int = 0,
) -> Iterator[EvaluatedSlatePolicy]:
    """Yield the evaluation of each candidate.

    If any candidate is a policy, which learns, policies learn the first slates, and all candidates are evaluated on
    the others. Otherwise they are evaluated on all slates.

    Args:
        log: a row for each slot. The rows of a slate have the same cluster.
        candidates: by label.
        estimators: names from `SLATE_ESTIMATORS`.
        train_share: the share of slates that policies learn.
        self_normalised: as in `evaluate_slates`.
        level: confidence level of the intervals.
        seed: of all random numbers.
    """
    learns = any(isinstance(candidate, Policy) for candidate in candidates.values())
    whole = LogSlice(log, 0, len(log))
    training, evaluated = split(log, train_share) if learns else (whole, whole)
    for label, candidate in candidates.items():
        target = train(training, candidate, seed=seed) if isinstance(candidate, Policy) else candidate
        if isinstance(target, GivenTarget):
            target = target_of_part(target, evaluated)
        evaluation = evaluate_slates(evaluated, target, estimators, self_normalised=self_normalised, level=level)
        yield EvaluatedSlatePolicy(label, evaluation)
