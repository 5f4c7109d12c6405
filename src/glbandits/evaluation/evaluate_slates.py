"""Estimators for slates: what another policy would have earned for each slate.

Letters: w_l = pi / p of the arm in slot l, r_l the reward of that slot. Every estimate is the mean over slates of the
sum of c_l r_l over slots. The estimators differ in the coefficients c_l, and in what they assume of rewards.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
from scipy.special import stdtrit

from glbandits.errors import InvalidInput, check_float, lookup
from glbandits.evaluation.estimators.estimator import ratio
from glbandits.evaluation.estimators.intervals import UNKNOWN, Interval
from glbandits.evaluation.estimators.targets import AnyTarget, as_target, checked_probabilities
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.logs.slate_log import SlateLog, slate_codes, slates_from_rows, slot_table
from glbandits.records import Floats


def _slate_ips(weights: Floats) -> Floats:
    return np.broadcast_to(weights.prod(axis=1, keepdims=True), weights.shape)


def _reward_interaction_ips(weights: Floats) -> Floats:
    return np.cumprod(weights, axis=1, dtype=np.float64)


def _independent_ips(weights: Floats) -> Floats:
    return weights


def _pseudo_inverse(weights: Floats) -> Floats:
    return np.broadcast_to(1.0 + (weights - 1.0).sum(axis=1, keepdims=True), weights.shape)


SLATE_ESTIMATORS: Mapping[str, Callable[[Floats], Floats]] = MappingProxyType(
    {
        "slate-ips": _slate_ips,
        "rips": _reward_interaction_ips,
        "iips": _independent_ips,
        "pi": _pseudo_inverse,
    }
)
"""The coefficients of the rewards of slots, (n, L), as a function of the weights, by the name of the estimator."""
OF_SLATES = ("slate-ips", "pi")
"""Estimators with the same coefficient for all slots: for them the reward of the whole slate is enough."""


@dataclass(frozen=True)
class SlateEstimate:
    """What one estimator says."""

    name: str
    value: float
    """The mean reward of a slate, summed over its slots, had the target filled it."""
    standard_error: float
    """By the spread of slates."""
    normal: Interval
    mean_coefficient: float
    """1, apart from noise, if propensities are right and the log can choose whatever the target does."""
    largest_coefficient: float


@dataclass(frozen=True)
class SlateEvaluation:
    """What a log of slates says about a target. Print it."""

    estimates: tuple[SlateEstimate, ...]
    logged: float
    """The mean reward of a slate in the log itself."""
    slates: int
    level: float

    def __getitem__(self, name: str) -> SlateEstimate:
        return lookup("estimate", name, {one.name: one for one in self.estimates})

    def __str__(self) -> str:
        lines = [
            f"{'estimator':12s} {'value':>10s} {'error':>9s}   {f'{self.level:.0%} normal':^22s} largest coefficient"
        ]
        lines += [
            f"{one.name:12s} {one.value:10.5f} {one.standard_error:9.5f}   "
            f"{f'[{one.normal.low:.5f}, {one.normal.high:.5f}]':^22s} {one.largest_coefficient:.3g}"
            for one in self.estimates
        ]
        return "\n".join([*lines, f"{'the log':12s} {self.logged:10.5f} over {self.slates} slates"])

    __repr__ = __str__


def evaluate_slates(
    log: SlateLog | Log,
    target: Any,
    estimators: Sequence[str] | None = None,
    *,
    self_normalised: bool = False,
    level: float = 0.95,
) -> SlateEvaluation:
    """Estimate the mean reward of a slate, had the target filled its slots.

    Args:
        log: a `SlateLog`; or a log of decisions, a row for each slot, where the rows of a slate have the same cluster.
        target: for a `SlateLog` the target's probability of the logged arm of each slot, (n, L), given the arms of
            earlier slots, or a function of the log that returns them; for a log of decisions a target as in `evaluate`.
        estimators: names from `SLATE_ESTIMATORS`; all that the log allows if None. If the log has one reward for each
            slate, only `slate-ips` and `pi` are possible.
        self_normalised: whether the mean over slates is divided by the mean coefficient, slot by slot.
        level: of the intervals.

    >>> from glbandits.evaluation import SlateLog, evaluate_slates
    >>> log = SlateLog(propensities=[[0.5, 0.5], [0.5, 0.5]], rewards=[[1, 0], [0, 1]])
    >>> result = evaluate_slates(log, [[1.0, 0.5], [0.0, 0.5]])           # the weights are 2, 1 and 0, 1
    >>> {name: result[name].value for name in ("slate-ips", "iips", "pi")}
    {'slate-ips': 1.0, 'iips': 1.5, 'pi': 1.0}
    """
    level = check_float("level", level, above=0, at_most=1 - 1e-9)
    if not isinstance(log, SlateLog | Log):
        raise InvalidInput(f"log must be a SlateLog or a log of decisions; got {type(log).__name__}")
    slates, wanted = (log, target) if isinstance(log, SlateLog) else slates_of_decisions(log, target)
    weights, whole = slates.weights(wanted), slates.rewards.ndim == 1
    names = (OF_SLATES if whole else tuple(SLATE_ESTIMATORS)) if estimators is None else estimators
    estimates = []
    for name in names:
        coefficients = lookup("estimator of slates", name, SLATE_ESTIMATORS)(weights)
        if whole and name not in OF_SLATES:
            raise InvalidInput(f"{name} needs a reward for each slot, and the log has one for each slate. Use pi")
        kept = coefficients[:, :1] if whole else coefficients
        rewards = slates.rewards[:, np.newaxis] if whole else slates.rewards
        estimates.append(_estimate(name, kept, rewards, self_normalised, level))
    return SlateEvaluation(tuple(estimates), float(slates.rewards.sum() / len(slates)), len(slates), level)


def slates_of_decisions(log: Log, target: AnyTarget) -> tuple[SlateLog, Floats]:
    """Slates of a log with a row for each slot, and the target's probabilities of the logged arms, (n, L).

    Rows of the same cluster are the slots of a slate, in their order. An export of multi-slot events is such a log:
    `read_parquet(folder, Columns(features="features", cluster="event_id"))`.
    """
    play, first = as_target(target, log.arm_names), 0
    parts = []
    for block in log.blocks():
        if block.clusters is None or block.propensities is None:
            raise InvalidInput("slates need propensities and clusters: the rows of a slate have the same cluster")
        probabilities = checked_probabilities(play, block, first)[np.arange(len(block)), block.chosen]
        parts.append((block.clusters, block.propensities, block.rewards, probabilities))
        first += len(block)
    if not parts:
        raise InvalidInput("the log has no rows")
    clusters, propensities, rewards, probabilities = (np.concatenate(part) for part in zip(*parts, strict=True))
    slates = slate_codes(pl.Series(clusters))
    order = pl.Series(slates).to_frame("slate").select(pl.int_range(pl.len()).over("slate")).to_series()
    index = slates, order.to_numpy().astype(np.int64)
    return slates_from_rows(index, propensities, rewards, None), slot_table(index, probabilities, 1.0)


def _estimate(name: str, coefficients: Floats, rewards: Floats, self_normalised: bool, level: float) -> SlateEstimate:
    """From coefficients and rewards, (n, L) or (n, 1); self-normalised errors by the delta method."""
    n, products, means = len(rewards), coefficients * rewards, coefficients.mean(axis=0)
    if self_normalised:
        ratios = ratio(products.mean(axis=0), means)
        value = float(ratios.sum())
        residuals = (coefficients * ratio(rewards - ratios, np.broadcast_to(means, rewards.shape))).sum(axis=1)
    else:
        value = float(products.sum() / n)
        residuals = products.sum(axis=1) - value
    error = float(residuals.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    reach = float(stdtrit(n - 1, 0.5 + level / 2)) * error if n > 1 else math.nan
    normal = Interval(value - reach, value + reach) if n > 1 else UNKNOWN
    return SlateEstimate(name, value, error, normal, float(means.mean()), float(coefficients.max()))
