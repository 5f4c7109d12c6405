"""Audit of a router: quality and cost of other budgets, single models and mixes, estimated from its log."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from glbandits.common.arrays import Bools, Floats
from glbandits.common.errors import InvalidInput, check_float, lookup
from glbandits.evaluation import CrossedArms, GlmReward, LoggedData, evaluate
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate
from glbandits.evaluation.estimators.support import MIN_SAMPLE_SIZE, NO_EVIDENCE
from glbandits.evaluation.estimators.targets import ARM_PREFIX
from glbandits.evaluation.logs.doubts import DoubtKind
from glbandits.routing.audit_log import RoutingLog
from glbandits.routing.model_costs import ModelCosts
from glbandits.routing.model_quality import ModelQuality

MIX, BUDGET, UNIFORM, ROUTER = "mix:", "budget:", "uniform", "the router"
"""Names of candidates, or how they begin."""
MAX_SHARE = 0.5
"""Share of one decision in the variance of a mean cost, above which its interval is doubtful."""
SKEWNESS = 3.0
"""The interval of a mean cost needs an effective sample size of this times the squared skewness of costs.

In simulations of log-normal costs, 95 % intervals with less held in 65 to 90 % of the logs, with more in 94 %."""
OFTEN = 0.5
"""Share of the rows that must offer a model, so that routers with other budgets use it."""
LEAST_COST = 1e-12
"""Models that cost nothing are learned as if they cost this."""
FEW, RARE, WRONG, DISAGREE, TAIL = "few rows", "rare weights", "mean weight", "dr is not ips", "rare costs"
DOUBTS = {
    FEW: f"the effective sample size is below {MIN_SAMPLE_SIZE}, because the router of the log decided differently",
    RARE: "the largest weights are so rare that intervals are too short if they were not drawn",
    WRONG: "the mean weight is not 1: the largest weights were not drawn, or the probabilities of the log are wrong",
    DISAGREE: "two estimators differ by more than random error: the features may be known only after the decision, or "
    "the probabilities of the log may be wrong",
    TAIL: "the mean cost depends on rare dear answers, of which the log has too few. Do not trust its interval",
}
"""Why an interval may be wrong, and what that means."""

Rule: TypeAlias = Callable[[LoggedData], Floats]
"""Returns the probability of each model for the decisions of a block, (n, models)."""


class Candidate(NamedTuple):
    """A way to route that is evaluated on some rows of the log."""

    name: str
    rule: Rule
    rows: Bools


@dataclass(frozen=True)
class Audited:
    """The estimates of one candidate. Those of the mean cost and the mean quality have these names."""

    name: str
    rows: int
    sample_size: float
    """The effective sample size: the number of decisions of the candidate itself that would tell as much."""
    values: dict[str, DoublyRobustEstimate]
    """Means of a decision. The interval is `fixed_n`."""
    gains: dict[str, DoublyRobustEstimate]
    """These minus those of the router that wrote the log, on the same rows."""
    doubts: tuple[str, ...] = ()
    """Keys of `DOUBTS`, or why there is not enough evidence."""

    @property
    def point(self) -> tuple[float, float]:
        """Mean cost and mean quality; NaN without enough evidence for an interval."""
        cost, quality = self.values["cost"], self.values["quality"]
        known = cost.fixed_n is not None and quality.fixed_n is not None
        return (cost.value, quality.value) if known else (math.nan, math.nan)


@dataclass(frozen=True)
class RouterAudit:
    """What `audit` found."""

    audited: tuple[Audited, ...]
    """The router of the log is the first."""
    budgets: dict[float, str]
    """The best mix for each budget, or the single model if it costs less; "" if no mix is so cheap."""
    hull: tuple[str, ...]
    """The single models between which the best mixes are, from the cheapest on."""
    level: float
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> Audited:
        """Return the estimates of a candidate by its name."""
        return lookup("candidate", name, {each.name: each for each in self.audited})


def audit(
    log: RoutingLog, budgets: Iterable[float] = (), policies: Iterable[str] = (), *, level: float = DEFAULT_LEVEL
) -> RouterAudit:
    """Estimate what other ways to route would have cost, and how good the answers would have been.

    The candidates are each model alone (`arm:NAME`), a random one of the models that were offered (`uniform`), and for
    each budget the best mix of two models with this mean cost, and a router with this budget (`budget:0.3`): it learns
    the first half of the log and is evaluated on the rest, where it neither learns nor explores. It uses the models
    that were offered most of the time. Each candidate is evaluated on the rows in which its models were offered: those
    in which the router had the budget for them.

    Args:
        log: from `read_routes`.
        budgets: mean costs of a decision, in the unit of the log. That of the log is always one of them.
        policies: more candidates. `mix:A,B,0.3` sends a share of 0.3 to model B, and all others to A.
        level: confidence level of the intervals.
    """
    names, rows = log.cost.arm_names or (), len(log.cost)
    offered = _offered(log.cost)

    def mix(name: str, shares: Floats) -> Candidate:
        rows_with_all = np.asarray(offered[:, shares > 0.0].all(axis=1))
        return Candidate(name, lambda block: np.tile(shares, (len(block), 1)), rows_with_all)

    alone = {f"{ARM_PREFIX}{name}": shares for name, shares in zip(names, np.eye(len(names)), strict=True)}
    mixes = {text: _shares(text, names) for text in policies if text != UNIFORM and text not in alone}
    limits = [check_float("budget", budget, above=0.0) for budget in budgets]
    router = _logged(log, level)
    uniform = Candidate(UNIFORM, _uniform, np.ones(rows, dtype=bool))
    found = _evaluated(log, [*(mix(*each) for each in alone.items()), uniform], level)
    hull, best, frozen, notes = list[Audited](), dict[float, str](), list[Candidate](), list(log.notes)
    if log.quality is None:
        notes.append("the log has no quality, so the audit is about costs only")
    elif len(names) == 1:
        notes.append(f"the log has only one model, {names[0]}, so there is nothing to compare")
    else:
        hull, today = _hull(found[: len(names)]), float(f"{router.values['cost'].value:.3g}")
        best = {limit: _best_mix(hull, limit) for limit in sorted({*limits, max(today, LEAST_COST)})}
        mixes |= {text: _shares(text, names) for text in best.values() if text.startswith(MIX)}
        is_first = np.arange(rows) < rows // 2
        usual = (offered.mean(axis=0) >= OFTEN) & np.isin(np.arange(len(names)), log.cost.chosen[is_first])
        complete = offered[:, usual].all(axis=1)
        if usual.any() and (complete & is_first).any():
            learner = _Learner(log.quality[complete & is_first], log.cost[complete & is_first], usual)
            frozen = [Candidate(f"{BUDGET}{limit:g}", learner.within(limit), complete & ~is_first) for limit in best]
        else:
            notes.append("the log has too few rows with the same models to learn a router with another budget")
    found += _evaluated(log, [mix(*each) for each in mixes.items()] + frozen, level)
    return RouterAudit((router, *found), best, tuple(each.name for each in hull), level, tuple(notes))


def _offered(block: LoggedData) -> Bools:
    assert block.probabilities is not None
    return block.probabilities > 0.0


def _uniform(block: LoggedData) -> Floats:
    offered = _offered(block)
    return np.asarray(offered / offered.sum(axis=1, keepdims=True))


def _shares(text: str, names: Sequence[str]) -> Floats:
    """Return the share of each model in a mix."""
    listed, _, last = text.removeprefix(MIX).rpartition(",")
    parts = listed.split(",")  # names may have commas
    pairs = [(",".join(parts[:end]), ",".join(parts[end:])) for end in range(1, len(parts))]
    try:
        share = float(last)
    except ValueError:
        share = math.nan
    if not text.startswith(MIX) or not pairs or not 0.0 <= share <= 1.0:
        known = ", ".join(f"{ARM_PREFIX}{name}" for name in names)
        raise InvalidInput(
            f"a policy is uniform, {known}, or mix:A,B,SHARE with a share of B from 0 to 1; got {text!r}"
        )
    shares, index = np.zeros(len(names)), {name: number for number, name in enumerate(names)}
    pair = next((pair for pair in pairs if {*pair} <= {*names}), pairs[0])
    for name, part in zip(pair, (1.0 - share, share), strict=True):
        shares[lookup("model", name, index)] += part
    return shares


def _logged(log: RoutingLog, level: float) -> Audited:
    """The router of the log: what was logged, and nothing estimated."""
    values = dict[str, DoublyRobustEstimate]()
    for measure, data in log.measures.items():
        assert data.probabilities is not None
        mean = evaluate(data, data.probabilities, "ips", level=level)["ips"]  # all weights are 1
        interval = mean.normal if len(data) > 1 else None
        values[measure] = DoublyRobustEstimate(
            value=mean.value, standard_error=mean.standard_error, fixed_n=interval, anytime=None
        )
    return Audited(ROUTER, len(log.cost), float(len(log.cost)), values, {})


def _evaluated(log: RoutingLog, candidates: Sequence[Candidate], level: float) -> list[Audited]:
    """Evaluate candidates: at once, if they have the same rows."""
    found = dict[str, Audited]()
    for key in {each.rows.tobytes() for each in candidates}:
        rules = {each.name: each.rule for each in candidates if each.rows.tobytes() == key}
        parts = {measure: data[np.frombuffer(key, dtype=bool)] for measure, data in log.measures.items()}
        if not len(parts["cost"]):
            found |= {name: _unknown(name, parts) for name in rules}
            continue
        results = {"cost": evaluate(parts["cost"], rules, "dr", model=GlmReward(), level=level)}
        if "quality" in parts:
            results["quality"] = evaluate(parts["quality"], rules, "dr", level=level, reward_range=(0.0, 1.0))
        for name, rule in rules.items():
            each = {measure: results[measure][name] for measure in parts}
            headlines = {measure: one.headline for measure, one in each.items() if one.headline is not None}
            support, reasons = each["cost"].support, [one.no_evidence for one in each.values() if one.no_evidence]
            doubts = {
                FEW: support.effective_sample_size < MIN_SAMPLE_SIZE,
                RARE: support.large_weights is not None and support.large_weights.rarely_observed,
                WRONG: support.has_wrong_mean_weight,
                DISAGREE: any(doubt.kind is DoubtKind.DISAGREEMENT for one in each.values() for doubt in one.doubts),
                TAIL: _has_rare_costs(
                    parts["cost"], rule, headlines["cost"].value.value, support.effective_sample_size
                ),
            }
            found[name] = Audited(
                name,
                support.rows,
                support.effective_sample_size,
                {measure: headline.value for measure, headline in headlines.items()},
                {measure: headline.gain for measure, headline in headlines.items()},
                tuple(dict.fromkeys(reasons)) or tuple(doubt for doubt, holds in doubts.items() if holds),
            )
    return [found[each.name] for each in candidates]


def _unknown(name: str, measures: Iterable[str]) -> Audited:
    reason = f"{NO_EVIDENCE}: the log never offered these models for the same decision"
    nothing = DoublyRobustEstimate(value=math.nan, standard_error=math.nan, fixed_n=None, anytime=None)
    return Audited(name, 0, 0.0, dict.fromkeys(measures, nothing), dict.fromkeys(measures, nothing), (reason,))


def _has_rare_costs(costs: LoggedData, rule: Rule, mean: float, sample_size: float) -> bool:
    """Whether the mean cost depends on dear answers that are too rare for its interval.

    Either one decision has most of the variance, or the sample is too small for the skewness of log-normal costs with
    the same spread. The second condition also warns if the dear answers were not drawn.
    """
    assert costs.propensities is not None
    weights = rule(costs)[np.arange(len(costs)), costs.chosen] / costs.propensities
    squares = (weights * (costs.rewards - mean)) ** 2
    logs, count = np.log(np.maximum(costs.rewards, LEAST_COST)), costs.arms.max_arms
    rows = np.maximum(np.bincount(costs.chosen, minlength=count), 1)
    deviations = logs - (np.bincount(costs.chosen, weights=logs, minlength=count) / rows)[costs.chosen]
    growth = math.exp(min(float(weights @ deviations**2 / max(weights.sum(), LEAST_COST)), 10.0))
    needed = SKEWNESS * (growth + 2.0) ** 2 * (growth - 1.0)
    return sample_size < needed or bool(squares.max() > MAX_SHARE * squares.sum())


def _hull(singles: Iterable[Audited]) -> list[Audited]:
    """Return the models on the upper convex hull of quality over cost, from the cheapest to the best one."""
    hull = list[Audited]()
    for each in sorted((one for one in singles if np.isfinite(one.point).all()), key=lambda one: one.point):
        while hull and (each.point[0] == hull[-1].point[0] or (len(hull) > 1 and _is_below(hull[-1], hull[-2], each))):
            hull.pop()
        if not hull or each.point[1] > hull[-1].point[1]:
            hull.append(each)
    return hull


def _is_below(middle: Audited, cheap: Audited, dear: Audited) -> bool:
    (cost, quality), (low, least), (high, most) = middle.point, cheap.point, dear.point
    return quality <= least + (most - least) * (cost - low) / (high - low)


def _best_mix(hull: Sequence[Audited], limit: float) -> str:
    """Return the name of the best mix that costs this, or of the best model if it costs less; "" for none."""
    for cheap, dear in pairwise(hull):
        if cheap.point[0] <= limit < dear.point[0]:
            share = (limit - cheap.point[0]) / (dear.point[0] - cheap.point[0])
            return f"{MIX}{cheap.name.removeprefix(ARM_PREFIX)},{dear.name.removeprefix(ARM_PREFIX)},{share:.3f}"
    return hull[-1].name if hull and limit >= hull[-1].point[0] else ""


class _Learner:
    """Learns quality and cost of the `usual` models, (models,), from a part of the log that has offered all of them."""

    def __init__(self, quality: LoggedData, cost: LoggedData, usual: Bools) -> None:
        self._models, self._X, count = np.flatnonzero(usual), _with_constant(cost), cost.arms.max_arms
        self._quality, self._costs = ModelQuality(count, self._X.shape[1], None, 0), ModelCosts(self._X.shape[1])
        observed = np.full((len(cost), count), np.nan)
        observed[np.arange(len(cost)), cost.chosen] = quality.rewards
        self._quality.learn_benchmark(np.arange(count), self._X, observed)
        for index, model in enumerate(self._models):
            rows = cost.chosen == model
            mean = float(cost.rewards[rows].mean()) if rows.any() else float(cost.rewards.mean())
            self._costs.add(max(mean, LEAST_COST), self._X.mean(axis=0))
            self._costs.learn(index, self._X[rows], cost.rewards[rows])

    def within(self, limit: float) -> Rule:
        """Return the router with the price that would have met this budget on the part of the log."""
        price = self._quality.price_for(limit, self._models, self._X, self._costs.predict(self._X))

        def rule(block: LoggedData) -> Floats:
            X = _with_constant(block)
            quality = [self._quality.predict(np.full(len(X), model), X) for model in self._models]
            best = self._models[(np.stack(quality, axis=1) - price * self._costs.predict(X)).argmax(axis=1)]
            return np.asarray(np.eye(block.arms.max_arms)[best])

        return rule


def _with_constant(block: LoggedData) -> Floats:
    """Return the contexts with a constant, (n, 1 + p)."""
    contexts = block.arms.contexts if isinstance(block.arms, CrossedArms) else np.empty((len(block), 0))
    return np.hstack([np.ones((len(block), 1)), contexts])
