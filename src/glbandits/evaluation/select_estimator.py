"""Choose among estimators by cross-validation on the log itself (OCV; Cief, Kveton and Kompan 2024).

A candidate estimates the value from one part of the log, an estimator without bias (the validator) from the rest. The
candidate with the least squared difference over many random splits is chosen. Groups of rows are split, so that rows
that were decided together stay together and a log of any length is read once. The reward model, and the settings that
`switch-dr` and `dros` find, come from the whole log.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from glbandits.errors import InvalidInput, check_int, lookup
from glbandits.evaluation.estimators.embeddings import AnyEmbeddings
from glbandits.evaluation.estimators.estimator import Estimator
from glbandits.evaluation.estimators.results import Estimate, Evaluation
from glbandits.evaluation.estimators.targets import AnyTarget
from glbandits.evaluation.evaluate import evaluate
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.models.reward_models import RewardModel
from glbandits.records import Floats

CANDIDATES = ("ips", "snips", "dr", "sndr", "switch-dr", "dros")
FEW_GROUPS = 20
"""Independent groups of rows below which no split says anything."""


class SplitError(NamedTuple):
    """Squared differences between a candidate and the validator, over random splits of the log."""

    mean: float
    """It contains the variance of the validator: compare it with other candidates, and do not read it as an error."""
    standard_error: float
    train_share: float
    """The share of the log from which the candidate estimated: more, the larger its variance."""

    @property
    def bound(self) -> float:
        """The mean and one standard error: the candidate with the least of these is chosen."""
        return self.mean + self.standard_error


@dataclass(frozen=True, eq=False)
class Selection:
    """The estimator that cross-validation chose, beside all others."""

    evaluation: Evaluation
    """All candidates and the validator; a note tells the choice."""
    chosen: str
    errors: Mapping[str, SplitError]
    """Of each candidate, by its name."""

    @property
    def estimate(self) -> Estimate:
        """What the chosen estimator says. Its interval does not know that it was chosen on the same log."""
        return self.evaluation[self.chosen]


def select_estimator(
    log: Log,
    target: AnyTarget,
    candidates: Sequence[str | Estimator] = CANDIDATES,
    *,
    validator: str = "dr",
    splits: int = 100,
    model: RewardModel | None = None,
    embeddings: AnyEmbeddings | None = None,
    level: float = 0.95,
    reward_range: tuple[float, float] | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Selection:
    """Evaluate a target by several estimators, and choose one of them by cross-validation.

    Args:
        log: as in `evaluate`, like `target`, `model`, `embeddings`, `level` and `reward_range`.
        target: see there.
        candidates: names of estimators, or estimators with settings of their own, each name once.
        validator: the name of an estimator without bias.
        splits: how many times the log is split.
        model: see `evaluate`.
        embeddings: see there.
        level: see there.
        reward_range: see there.
        seed: of the splits, and of all that `evaluate` draws.
        progress: see `evaluate`.

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
    splits = check_int("splits", splits, at_least=2)
    names = [one if isinstance(one, str) else one.name for one in candidates]
    if not names or len(set(names)) < len(names):
        raise InvalidInput(
            f"candidates must be at least one estimator, and each once; got {', '.join(names) or 'none'}"
        )
    evaluation = evaluate(
        log,
        target,
        [*candidates, *({validator} - set(names))],
        model=model,
        embeddings=embeddings,
        level=level,
        reward_range=reward_range,
        seed=seed,
        progress=progress,
    )
    judge = lookup("validator", validator, {one.name: one for one in evaluation.estimates if not one.estimator.biased})
    if judge.moments.groups < FEW_GROUPS:
        raise InvalidInput(
            f"cross-validation needs at least {FEW_GROUPS} independent groups of rows; the log has "
            f"{judge.moments.groups}. Use dr"
        )
    errors = {
        name: _split_error(evaluation[name], judge, splits, np.random.default_rng([seed, index]))
        for index, name in enumerate(names)
    }
    chosen = min(errors, key=lambda name: errors[name].bound)
    note = f"cross-validation chooses {chosen} among {', '.join(names)}: {evaluation[chosen].value:.5f}"
    return Selection(replace(evaluation, notes=(*evaluation.notes, note)), chosen, MappingProxyType(errors))


def _split_error(candidate: Estimate, judge: Estimate, splits: int, rng: np.random.Generator) -> SplitError:
    groups = candidate.moments.groups
    own, other = _variance(candidate), _variance(judge)
    # In this proportion the estimates from both parts have the same variance.
    share = own / (own + other) if own + other > 0.0 else 0.5
    cut = min(max(round(share * groups), 2), groups - 2)
    train = rng.permuted(np.tile(np.arange(groups) < cut, (splits, 1)), axis=1).astype(np.float64)
    squares = (_values(candidate, train) - _values(judge, 1.0 - train)) ** 2
    if np.isnan(squares).any():  # a self-normalised candidate whose part has no weight
        return SplitError(math.inf, 0.0, cut / groups)
    return SplitError(float(squares.mean()), float(squares.std(ddof=1)) / math.sqrt(splits), cut / groups)


def _values(estimate: Estimate, parts: Floats) -> Floats:
    """The estimates, (splits,), from the groups that are 1 in a row of `parts`, (splits, groups)."""
    moments = estimate.moments
    return estimate.estimator.combine(parts @ moments.sums / (parts @ moments.counts)[:, np.newaxis])


def _variance(estimate: Estimate) -> float:
    """Of the estimate from the whole log, without what the reward model adds."""
    moments = estimate.moments
    return moments.standard_error(estimate.estimator.gradient(moments.mean)) ** 2
