"""How often policies pulled the best arms."""

from dataclasses import dataclass

import numpy as np

from glbandits.experiments.experiment import Experiment
from glbandits.experiments.outcomes import ExperimentResult, ProtocolResult
from glbandits.records import Floats, Ints

ORDINALS = ("best arm", "2nd best", "3rd best")


@dataclass(frozen=True)
class BestPulls:
    """How often the best arms were pulled: the median over seeds."""

    arms: tuple[str, ...]
    """The arms, in words."""
    medians: dict[str, Floats]
    """By label, (arms,)."""


def best_pulls(result: ExperimentResult, protocol: ProtocolResult) -> BestPulls:
    """The median pulls of each of the best arms, which are those of the largest value in a seed's first round."""
    experiment, outcomes = result.experiment, protocol.outcomes
    arms, values = zip(*(_best_arms(experiment, seed) for seed in outcomes[0].seeds), strict=True)
    many = min(len(arms_of_seed) for arms_of_seed in arms)
    where = np.array([arms_of_seed[:many] for arms_of_seed in arms])
    medians = {outcome.label: np.median(_pulls_at(outcome.pulls, where), axis=0) for outcome in outcomes}
    names = [ORDINALS[i] if i < len(ORDINALS) else f"{i + 1}th best" for i in range(many)]
    worth = np.array([values_of_seed[:many] for values_of_seed in values])
    if (worth == worth[0]).all():
        names = [f"{name} ({value:.3f})" for name, value in zip(names, worth[0], strict=True)]
    return BestPulls(tuple(names), medians)


def _best_arms(experiment: Experiment, seed: int) -> tuple[Ints, Floats]:
    first = next(experiment.environment.rounds(1, seed))
    values = first.values[0, : first.counts[0]]
    arms = np.argsort(-values, kind="stable")[: experiment.best_arms]
    return arms, values[arms]


def _pulls_at(pulls: Floats, arms: Ints) -> Floats:
    """Pulls of each seed's own best arms; an arm beyond the last one that was pulled has none."""
    missing = max(0, int(arms.max()) + 1 - pulls.shape[1])
    return np.take_along_axis(np.pad(pulls, ((0, 0), (0, missing))), arms, axis=1)
