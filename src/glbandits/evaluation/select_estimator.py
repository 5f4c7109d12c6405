"""select_estimator: choose an estimator by cross-validation on the log.

The method is OCV (Cief, Kveton and Kompan 2024). A candidate estimates the value from one part of the log, and an
unbiased estimator (the validator) from the rest. The candidate with the smallest mean squared difference over many
random splits is chosen. Splits are made of groups of rows (`grouped_moments`), so that clusters stay together and the
log is read once. The reward model and the settings that `switch-dr` and `dros` select are those of the whole log.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, Unpack

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.display.displayed import Displayed
from glbandits.common.errors import InvalidInput, check_int, lookup
from glbandits.evaluation.estimators.estimator import Estimator
from glbandits.evaluation.estimators.results import Estimate, Evaluation
from glbandits.evaluation.estimators.targets import TargetLike
from glbandits.evaluation.evaluate import Estimators, EvaluationOptions, evaluate
from glbandits.evaluation.logs.logged_data import Log

CANDIDATES = ("ips", "snips", "dr", "sndr", "switch-dr", "dros")
MIN_GROUPS = 20
"""Minimum number of independent groups of rows."""


class ValidationScore(NamedTuple):
    """Squared differences between a candidate and the validator, over random splits."""

    mean: float
    """It includes the variance of the validator: use it only to compare candidates."""
    standard_error: float
    train_share: float
    """Share of the log for the candidate: it is larger if the candidate has more variance."""

    @property
    def bound(self) -> float:
        """Mean plus one standard error. The candidate with the smallest bound is chosen."""
        return self.mean + self.standard_error


@dataclass(frozen=True, eq=False, repr=False)
class Selection(Displayed):
    """The chosen estimator, and the results of all candidates."""

    evaluation: Evaluation
    """All candidates and the validator. A note names the chosen one."""
    chosen: str
    errors: Mapping[str, ValidationScore]
    """Score of each candidate, by its name."""

    @property
    def estimate(self) -> Estimate:
        """Result of the chosen estimator. Its interval ignores that it was chosen on the same log."""
        return self.evaluation[self.chosen]

    def _values(self) -> dict[str, object]:
        estimate = self.estimate
        return {"chosen": self.chosen, "value": estimate.value, "error": estimate.standard_error, "of": [*self.errors]}


def select_estimator(
    log: Log,
    target: TargetLike,
    candidates: Estimators = CANDIDATES,
    *,
    validator: str = "dr",
    splits: int = 100,
    **options: Unpack[EvaluationOptions],
) -> Selection:
    """Evaluate a target with several estimators, and choose one of them by cross-validation.

    Args:
        log: as in `evaluate`.
        target: as in `evaluate`.
        candidates: names of estimators, or instances with other settings; each name once.
        validator: name of an unbiased estimator.
        splits: number of random splits.
        options: as in `evaluate`. `seed` is also that of the splits.

    >>> import numpy as np
    >>> from glbandits.evaluation import FixedArms, LoggedData, select_estimator
    >>> rng = np.random.default_rng(1)
    >>> chosen = (rng.random(1000) < 0.05).astype(int)                      # arm 1 with probability 0.05
    >>> log = LoggedData(
    ...     chosen=chosen, rewards=5 + rng.normal(size=1000), propensities=np.where(chosen, 0.05, 0.95),
    ...     arms=FixedArms(np.eye(2), rows=1000), arm_names=("old", "new"),
    ... )
    >>> selection = select_estimator(log, "new", ["ips", "snips"])          # a reward far from 0 is bad for ips
    >>> selection.chosen, selection.errors["ips"].mean > 2 * selection.errors["snips"].mean
    ('snips', True)
    """
    candidates = [candidates] if isinstance(candidates, str) else candidates
    names = [candidate if isinstance(candidate, str) else candidate.name for candidate in candidates]
    _check(names, splits)
    evaluation = evaluate(log, target, with_validator(candidates, validator), **options)
    return choose_estimator(evaluation, names, validator=validator, splits=splits, seed=options.get("seed", 0))


def with_validator(candidates: Sequence[str | Estimator], validator: str = "dr") -> list[str | Estimator]:
    """Return the estimators that `choose_estimator` needs: the candidates and the validator, each once."""
    names = {candidate if isinstance(candidate, str) else candidate.name for candidate in candidates}
    return [*candidates, *({validator} - names)]


def choose_estimator(
    evaluation: Evaluation, names: Sequence[str], *, validator: str = "dr", splits: int = 100, seed: int = 0
) -> Selection:
    """Choose one of the estimators of an evaluation, which must have the validator too."""
    _check(names, splits)
    unbiased = {each.name: each for each in evaluation.estimates if not each.estimator.biased}
    validator_estimate = lookup("validator", validator, unbiased)
    if validator_estimate.moments.groups < MIN_GROUPS:
        raise InvalidInput(
            f"cross-validation needs at least {MIN_GROUPS} independent groups of rows; got "
            f"{validator_estimate.moments.groups}. Use dr"
        )
    errors = {
        name: _validation_score(evaluation[name], validator_estimate, splits, np.random.default_rng([seed, index]))
        for index, name in enumerate(names)
    }
    chosen = min(errors, key=lambda name: errors[name].bound)
    note = f"cross-validation chooses {chosen} among {', '.join(names)}: {evaluation[chosen].value:.5f}"
    note = evaluation[chosen].no_evidence or note
    return Selection(replace(evaluation, notes=(*evaluation.notes, note)), chosen, MappingProxyType(errors))


def _check(names: Sequence[str], splits: int) -> None:
    check_int("splits", splits, at_least=2)
    if not names or len(set(names)) < len(names):
        raise InvalidInput(f"candidates must be one or more different estimators; got {', '.join(names) or 'none'}")


def _validation_score(
    candidate: Estimate, validator_estimate: Estimate, splits: int, rng: np.random.Generator
) -> ValidationScore:
    groups = candidate.moments.groups
    own, other = _variance(candidate), _variance(validator_estimate)
    # With this share, the estimates from both parts have the same variance.
    share = own / (own + other) if own + other > 0.0 else 0.5
    cut = min(max(round(share * groups), 2), groups - 2)
    train = rng.permuted(np.tile(np.arange(groups) < cut, (splits, 1)), axis=1).astype(np.float64)
    squares = (_values(candidate, train) - _values(validator_estimate, 1.0 - train)) ** 2
    if np.isnan(squares).any():  # a self-normalised candidate whose part has weight 0
        return ValidationScore(math.inf, 0.0, cut / groups)
    return ValidationScore(float(squares.mean()), float(squares.std(ddof=1)) / math.sqrt(splits), cut / groups)


def _values(estimate: Estimate, parts: Floats) -> Floats:
    """Estimates, (splits,), from the groups with a 1 in a row of `parts`, (splits, groups)."""
    moments = estimate.moments
    return estimate.estimator.combine(parts @ moments.sums / (parts @ moments.counts)[:, np.newaxis])


def _variance(estimate: Estimate) -> float:
    """Variance of the estimate from the whole log, without that of the reward model."""
    moments = estimate.moments
    return moments.standard_error(estimate.estimator.gradient(moments.mean)) ** 2
