"""evaluate_slates: estimate the mean reward of a slate if a target had filled its slots.

Notation: w_l = pi / p is the weight of the arm in slot l, and r_l the reward of the slot. Each estimate is the mean
over slates of the sum of c_l r_l over slots. The estimators differ in the coefficients c_l, and in their assumptions
about rewards.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from scipy.special import stdtrit

from glbandits.common.arrays import Floats
from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import percent
from glbandits.common.display.text_format import NO_VALUE, format_interval, format_value, join_words
from glbandits.common.errors import InvalidInput, check_float, lookup
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL, UNKNOWN_INTERVAL, Interval, ratio
from glbandits.evaluation.estimators.frozen_agent import frozen
from glbandits.evaluation.estimators.seen_rows import check_not_learned
from glbandits.evaluation.estimators.support import (
    MAX_DEVIATION,
    MIN_INTERVAL_SAMPLE_SIZE,
    MIN_SAMPLE_SIZE,
    NO_EVIDENCE,
    WRONG_MEAN_ERRORS,
)
from glbandits.evaluation.estimators.targets import GivenTarget, TargetLike, as_target, target_probabilities
from glbandits.evaluation.learning.train import train_all
from glbandits.evaluation.logs.log_slice import LogSlice, split
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.logs.reward_checks import check_reward_range
from glbandits.maths.links import find_link
from glbandits.policies.agents import PolicyLike, learner_of

LEAST_SHARE = 0.001
"""The share of the slots from which on there is a note about an arm that the log never shows."""


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
    """Of the slot in which it differs most from 1: expected to be 1 if propensities are correct and the log supports
    the target."""
    largest_coefficient: float
    effective_slates: float
    """Effective number of slates, of the slot with the fewest."""
    gain: float
    """The value minus the mean reward of a slate of the log."""
    joint_gain: Interval
    """Interval of the gain that holds at once for all gains that are looked at together."""
    effective_gains: float
    """Effective number of slates that contribute to the gain."""
    no_evidence: str = ""
    """Why `value`, `standard_error`, `normal` and the gain are NaN; "" if they are not."""

    def without_evidence(self, reason: str) -> "SlateEstimate":
        """Return the estimate without its numbers, because of this reason."""
        nan, unknown = math.nan, UNKNOWN_INTERVAL
        return replace(
            self, value=nan, standard_error=nan, normal=unknown, gain=nan, joint_gain=unknown, no_evidence=reason
        )


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
    notes: tuple[str, ...] = ()
    """What the log does not support."""

    def verdict(self, label: str) -> str:
        """Return whether the target is better than the logging policy, as a sentence, if all estimates agree."""
        known = [each for each in self.estimates if not each.no_evidence]
        if known and not any(each.effective_gains for each in known):
            return f"{label} decides as the logging policy did."
        enough = [each for each in known if min(each.effective_slates, each.effective_gains) >= MIN_SAMPLE_SIZE]
        if not enough:
            reasons = [each.no_evidence for each in self.estimates if each.no_evidence]
            few = f"{NO_EVIDENCE}: fewer than {MIN_SAMPLE_SIZE} effective slates"
            return f"No verdict on {label}: {few if known else reasons[0]}."
        signs = {int(each.joint_gain.low > 0.0) - int(each.joint_gain.high < 0.0) for each in enough}
        by = join_words([each.name for each in enough])
        if signs in ({1}, {-1}):
            word = "better" if signs == {1} else "worse"
            return f"{label} is {word} than the logging policy on these slates, by {by}; {percent(self.level)} sure."
        return f"Whether {label} is better or worse than the logging policy is open, by {by}."

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
                NO_EVIDENCE if each.no_evidence else format_value(each.value),
                NO_VALUE if each.no_evidence else format_value(each.standard_error),
                each.no_evidence.removeprefix(f"{NO_EVIDENCE}: ") or format_interval(each.normal),
                f"{each.effective_slates:,.0f}",
                f"{each.largest_coefficient:.3g}",
            )
            for each in self.estimates
        ]
        columns = ("estimator", "value", "error", f"{percent(self.level)} normal", "effective slates", "largest")
        unit = ", in payoffs" if self.unit == "payoff" else ""
        logged = f"the log: {format_value(self.logged)} over {self.slates} slates{unit}"
        return DataTable(columns, rows, notes=(logged, *(f"Note: {note}" for note in self.notes)))


def evaluate_slates(
    log: Log,
    target: TargetLike,
    estimators: Sequence[str] = tuple(SLATE_ESTIMATORS),
    *,
    level: float = DEFAULT_LEVEL,
    reward_range: tuple[float, float] | None = None,
    gains: int | None = None,
) -> SlateEvaluation:
    """Estimate the mean reward of a slate if the target had filled its slots.

    If the log has values (`LoggedData.values`), all results are payoffs, as in `evaluate`.

    Args:
        log: a row for each slot, in the order in which slots were filled. The rows of a slate have the same cluster.
            An export of multi-slot events is such a log: `open_log(folder, Columns(cluster="event_id"))`.
        target: as in `evaluate`: its probabilities in a slot are those given the arms of earlier slots.
        estimators: names from `SLATE_ESTIMATORS`.
        level: confidence level of the intervals.
        reward_range: lowest and highest possible reward of a slot; by default those of the link, or of the log.
        gains: number of gains that share the error probability 1 - level; by default that of the estimators.

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
    check_not_learned(log, {"": target})
    slates = _slates(log, target, check_reward_range(reward_range, find_link(log.schema.link)))
    estimates = tuple(
        _estimate(
            name,
            lookup("estimator of slates", name, SLATE_ESTIMATORS)(slates.weights),
            slates,
            level,
            1.0 - (1.0 - level) / (gains or max(len(estimators), 1)),
        )
        for name in estimators
    )
    count = len(slates.rewards)
    return SlateEvaluation(estimates, float(slates.rewards.sum() / count), count, level, log.schema.unit, slates.notes)


def compare_on_slates(
    log: Log,
    candidates: Mapping[str, PolicyLike | TargetLike],
    estimators: Sequence[str],
    *,
    train_share: float = 0.5,
    level: float = DEFAULT_LEVEL,
    reward_range: tuple[float, float] | None = None,
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
        level: confidence level of the intervals.
        reward_range: as in `evaluate_slates`.
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
        yield (
            label,
            evaluate_slates(
                evaluated,
                target,
                estimators,
                level=level,
                reward_range=reward_range,
                gains=len(candidates) * len(estimators),
            ),
        )


class _Slates(NamedTuple):
    """The slots of slates. Empty slots have weight 1 and reward 0, so that they do not change estimates."""

    weights: Floats
    """(n, L)."""
    rewards: Floats
    """Or payoffs, (n, L)."""
    possible: tuple[float, float]
    """Lowest and highest possible mean reward of a slate."""
    notes: tuple[str, ...] = ()
    """See `SlateEvaluation`."""


def _slates(log: Log, target: TargetLike, reward_range: tuple[float, float]) -> _Slates:
    """The slates of a log: the rows of a cluster are its slots, in their order."""
    slot_target, first_row = as_target(target, log), 0
    parts, wanted, shown = list[tuple[Any, ...]](), np.zeros(log.schema.max_arms), np.zeros(log.schema.max_arms)
    for block in log.blocks():
        if block.clusters is None or block.propensities is None:
            raise InvalidInput(
                "a log of slates must have propensities, and clusters that identify the slates; got none"
            )
        of_all = target_probabilities(slot_target, block, first_row)
        wanted += of_all.sum(axis=0)
        shown += np.bincount(block.chosen, minlength=len(shown))
        of_chosen = of_all[np.arange(len(block)), block.chosen]
        parts.append((block.clusters, of_chosen / block.propensities, block.payoffs))
        first_row += len(block)
    if not parts:
        raise InvalidInput("the log has no rows")
    clusters, weights, rewards = (np.concatenate(part) for part in zip(*parts, strict=True))
    _, first_rows, slates = np.unique(clusters, return_index=True, return_inverse=True)
    slates = np.argsort(np.argsort(first_rows))[slates]  # in the order of their first rows
    slots = pl.Series(slates).to_frame("slate").select(pl.int_range(pl.len()).over("slate")).to_series().to_numpy()
    shape = len(first_rows), int(slots.max()) + 1
    possible = _possible(log, rewards, len(slates) / len(first_rows), reward_range)
    shares = wanted / len(slates)
    notes = tuple(
        f"the arm {name!r} has {shares[arm]:.1%} of the slots under the target, and the log never shows it"
        for arm, name in enumerate(log.arm_names or ())
        if shares[arm] >= LEAST_SHARE and not shown[arm]
    )
    tables = _Slates(np.ones(shape), np.zeros(shape), possible, notes)
    tables.weights[slates, slots], tables.rewards[slates, slots] = weights, rewards
    return tables


def _possible(log: Log, rewards: Floats, slots: float, reward_range: tuple[float, float]) -> tuple[float, float]:
    """The lowest and the highest possible mean reward of a slate with this mean number of slots."""
    low, high = (float(rewards.min()), float(rewards.max()))
    if math.isfinite(reward_range[1] - reward_range[0]) and not log.schema.payoffs:
        low, high = reward_range
    return slots * low, slots * high


def _estimate(name: str, coefficients: Floats, slates: _Slates, level: float, joint_level: float) -> SlateEstimate:
    """Estimate from coefficients and rewards, (n, L)."""
    rewards = slates.rewards
    n, products, means = len(rewards), coefficients * rewards, coefficients.mean(axis=0)
    value = float(products.sum() / n)
    residuals = products.sum(axis=1) - value
    logged = rewards.sum(axis=1)
    gains, effective = residuals - (logged - logged.mean()), _effective(coefficients).min()
    error, normal = _error_and_interval(value, residuals, level)
    gain, few = value - float(logged.mean()), effective < MIN_INTERVAL_SAMPLE_SIZE
    worst = int(np.argmax(np.abs(means - 1.0)))
    found = SlateEstimate(
        name=name,
        value=value,
        standard_error=error,
        normal=UNKNOWN_INTERVAL if few else normal.within(*slates.possible),
        mean_coefficient=float(means[worst]),
        largest_coefficient=float(coefficients.max()),
        effective_slates=float(effective),
        gain=gain,
        joint_gain=UNKNOWN_INTERVAL if few else _error_and_interval(gain, gains, joint_level)[1],
        effective_gains=float(_effective(np.abs(products.sum(axis=1) - logged)[:, np.newaxis])[0]),
    )
    if n < MIN_INTERVAL_SAMPLE_SIZE:
        return found
    reason = _no_evidence(found, _error_and_interval(0.0, coefficients[:, worst], level)[0], slates.possible)
    return found.without_evidence(reason) if reason else found


def _no_evidence(estimate: SlateEstimate, error: float, possible: tuple[float, float]) -> str:
    """Why an estimate may not be shown; "" if it may. `error` is that of the mean coefficient."""
    off, mean = abs(estimate.mean_coefficient - 1.0), estimate.mean_coefficient
    if off > MAX_DEVIATION and off > WRONG_MEAN_ERRORS * error:
        cause = "the log lacks decisions of the target, or has" if mean < 1.0 else "the log has"
        return f"{NO_EVIDENCE}: the mean coefficient of a slot is {mean:.2g}, not 1: {cause} wrong propensities"
    slack = WRONG_MEAN_ERRORS * estimate.standard_error
    if possible[0] < possible[1] and not possible[0] - slack <= estimate.value <= possible[1] + slack and slack >= 0.0:
        bounds = f"possible values are {possible[0]:.4g} to {possible[1]:.4g}"
        return f"{NO_EVIDENCE}: it would be {estimate.value:.3g}, and {bounds}"
    return ""


def _error_and_interval(value: float, terms: Floats, level: float) -> tuple[float, Interval]:
    """The standard error of the mean of terms, and the interval around a value; NaN for one slate."""
    n = len(terms)
    if n < 2:
        return math.nan, UNKNOWN_INTERVAL
    error = float(terms.std(ddof=1)) / math.sqrt(n)
    half_width = float(stdtrit(n - 1, 0.5 + level / 2)) * error
    return error, Interval(value - half_width, value + half_width)


def _effective(terms: Floats) -> Floats:
    """The effective number of rows of each column of terms, (n, L)."""
    return np.nan_to_num(ratio(terms.sum(axis=0) ** 2, (terms**2).sum(axis=0)))
