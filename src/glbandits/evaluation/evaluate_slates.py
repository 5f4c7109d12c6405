"""evaluate_slates: estimate the mean reward of a slate if a target had filled its slots.

Notation: w_l = pi / p is the weight of the arm in slot l, and r_l the reward of the slot. Each estimate is the mean
over slates of the sum of c_l r_l over slots. The estimators differ in the coefficients c_l, and in their assumptions
about rewards.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, cast

import numpy as np
import polars as pl
from scipy.special import stdtrit

from glbandits.common.arrays import Floats
from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import percent
from glbandits.common.display.text_format import format_interval, format_value
from glbandits.common.errors import InvalidInput, check_float, lookup
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL, UNKNOWN_INTERVAL, Interval, ratio
from glbandits.evaluation.estimators.frozen_agent import frozen
from glbandits.evaluation.estimators.targets import GivenTarget, TargetLike, as_target, target_probabilities
from glbandits.evaluation.learning.train import train_all
from glbandits.evaluation.logs.log_slice import LogSlice, split
from glbandits.evaluation.logs.logged_data import Log
from glbandits.policies.agents import PolicyLike, learner_of


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
"""By the name of the estimator: the coefficients of the rewards of slots, (n, L), as a function of the weights."""


@dataclass(frozen=True)
class SlateEstimate:
    """The result of one estimator."""

    name: str
    value: float
    """Mean reward of a slate, summed over its slots, under the target."""
    standard_error: float
    """From the variance between slates."""
    normal: Interval
    mean_coefficient: float
    """Expected to be 1 if propensities are correct and the log supports the target."""
    largest_coefficient: float


@dataclass(frozen=True)
class SlateEvaluation:
    """The evaluation of a target on a log of slates. `str()` is a table of all results."""

    estimates: tuple[SlateEstimate, ...]
    logged: float
    """Mean reward of a slate of the log."""
    slates: int
    level: float
    unit: str = "reward"
    """`payoff` if the log has values: each slot then counts value * reward - cost."""

    def __getitem__(self, name: str) -> SlateEstimate:
        return lookup("estimate", name, {estimate.name: estimate for estimate in self.estimates})

    def __str__(self) -> str:
        return self._table().to_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._table().to_html()

    def _table(self) -> DataTable:
        rows = [
            (
                each.name,
                format_value(each.value),
                format_value(each.standard_error),
                format_interval(each.normal),
                f"{each.largest_coefficient:.3g}",
            )
            for each in self.estimates
        ]
        columns = ("estimator", "value", "error", f"{percent(self.level)} normal", "largest coefficient")
        unit = ", in payoffs" if self.unit == "payoff" else ""
        return DataTable(
            columns, rows, notes=(f"the log: {format_value(self.logged)} over {self.slates} slates{unit}",)
        )


def evaluate_slates(
    log: Log,
    target: TargetLike,
    estimators: Sequence[str] = tuple(SLATE_ESTIMATORS),
    *,
    self_normalised: bool = False,
    level: float = DEFAULT_LEVEL,
) -> SlateEvaluation:
    """Estimate the mean reward of a slate if the target had filled its slots.

    If the log has values (`LoggedData.values`), all results are payoffs, as in `evaluate`.

    Args:
        log: a row for each slot, in the order in which slots were filled. The rows of a slate have the same cluster.
            An export of multi-slot events is such a log: `open_log(folder, Columns(cluster="event_id"))`.
        target: as in `evaluate`: its probabilities in a slot are those given the arms of earlier slots.
        estimators: names from `SLATE_ESTIMATORS`.
        self_normalised: whether to divide the mean over slates by the mean coefficient, for each slot.
        level: confidence level of the intervals.

    >>> from glbandits.evaluation import Columns, evaluate_slates, read_table
    >>> table = {
    ...     "slate": ["u", "u", "v", "v"], "arm": ["hat", "shoe", "shoe", "hat"], "reward": [1, 0, 0, 1],
    ...     "propensity": [0.5, 0.5, 0.5, 0.25],
    ... }
    >>> log = read_table(table, Columns(cluster="slate"))
    >>> result = evaluate_slates(log, "uniform")                          # the weights are 1, 1 and 1, 2
    >>> {name: result[name].value for name in ("slate-ips", "iips", "pi")}
    {'slate-ips': 1.5, 'iips': 1.5, 'pi': 1.5}
    """
    level = check_float("level", level, above=0, at_most=1 - 1e-9)
    if not isinstance(log, Log):
        raise InvalidInput(f"log must be LoggedData or a log read from a file; got {type(log).__name__}")
    slates = _slates(log, target)
    estimates = tuple(
        _estimate(
            name,
            lookup("estimator of slates", name, SLATE_ESTIMATORS)(slates.weights),
            slates.rewards,
            self_normalised,
            level,
        )
        for name in estimators
    )
    count = len(slates.rewards)
    return SlateEvaluation(estimates, float(slates.rewards.sum() / count), count, level, log.schema.unit)


def compare_on_slates(
    log: Log,
    candidates: Mapping[str, PolicyLike | TargetLike],
    estimators: Sequence[str],
    *,
    train_share: float = 0.5,
    self_normalised: bool = False,
    level: float = DEFAULT_LEVEL,
    seed: int = 0,
) -> Iterator[tuple[str, SlateEvaluation]]:
    """Yield the label and the evaluation of each candidate.

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
    learns = any(learner_of(candidate) is not None for candidate in candidates.values())
    whole = LogSlice(log, 0, len(log))
    training, evaluated = split(log, train_share) if learns else (whole, whole)
    for label, candidate in candidates.items():
        learner, target = learner_of(candidate), cast(TargetLike, candidate)
        if learner is not None:
            trained = train_all(training, {label: learner}, seed=seed, progress=lambda *_: None)[label]
            target = frozen(trained)
        if isinstance(target, GivenTarget):
            target = target.of_part(evaluated, log)
        yield label, evaluate_slates(evaluated, target, estimators, self_normalised=self_normalised, level=level)


class _Slates(NamedTuple):
    """The slots of slates. Empty slots have weight 1 and reward 0, so that they do not change estimates."""

    weights: Floats
    """(n, L)."""
    rewards: Floats
    """Or payoffs, (n, L)."""


def _slates(log: Log, target: TargetLike) -> _Slates:
    """The slates of a log: the rows of a cluster are its slots, in their order."""
    slot_target, first_row = as_target(target, log), 0
    parts = []
    for block in log.blocks():
        if block.clusters is None or block.propensities is None:
            raise InvalidInput(
                "a log of slates must have propensities, and clusters that identify the slates; got none"
            )
        probabilities = target_probabilities(slot_target, block, first_row)[np.arange(len(block)), block.chosen]
        parts.append((block.clusters, probabilities / block.propensities, block.payoffs))
        first_row += len(block)
    if not parts:
        raise InvalidInput("the log has no rows")
    clusters, weights, rewards = (np.concatenate(part) for part in zip(*parts, strict=True))
    _, first_rows, slates = np.unique(clusters, return_index=True, return_inverse=True)
    slates = np.argsort(np.argsort(first_rows))[slates]  # in the order of their first rows
    slots = pl.Series(slates).to_frame("slate").select(pl.int_range(pl.len()).over("slate")).to_series().to_numpy()
    shape = len(first_rows), int(slots.max()) + 1
    tables = _Slates(weights=np.ones(shape), rewards=np.zeros(shape))
    tables.weights[slates, slots], tables.rewards[slates, slots] = weights, rewards
    return tables


def _estimate(name: str, coefficients: Floats, rewards: Floats, self_normalised: bool, level: float) -> SlateEstimate:
    """Estimate from coefficients and rewards, (n, L).

    Self-normalised errors use the delta method.
    """
    n, products, means = len(rewards), coefficients * rewards, coefficients.mean(axis=0)
    if self_normalised:
        ratios = ratio(products.mean(axis=0), means)
        value = float(ratios.sum())
        residuals = (coefficients * ratio(rewards - ratios, np.broadcast_to(means, rewards.shape))).sum(axis=1)
    else:
        value = float(products.sum() / n)
        residuals = products.sum(axis=1) - value
    error = float(residuals.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    half_width = float(stdtrit(n - 1, 0.5 + level / 2)) * error if n > 1 else math.nan
    normal = Interval(value - half_width, value + half_width) if n > 1 else UNKNOWN_INTERVAL
    return SlateEstimate(name, value, error, normal, float(means.mean()), float(coefficients.max()))
