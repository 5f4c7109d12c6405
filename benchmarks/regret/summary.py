"""Comparisons over many problems."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from benchmarks.regret.problem import OTHERS, STUCK, TABLES
from benchmarks.regret.results import PolicyResult, ProblemResult, Ratio

SIGNIFICANCE = 0.05

Results = Sequence[ProblemResult]
RatioOf = Callable[[ProblemResult], Ratio | None]


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean; NaN of nothing.

    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def mean_ratio(results: Results, ratio_of: RatioOf) -> tuple[float, float, float]:
    """The geometric mean of the subject's ratios, and a 95 % interval from resampled seeds.

    NaN without ratios.
    """
    ratios = [ratio for ratio in map(ratio_of, results) if ratio is not None]
    if not ratios:
        return math.nan, math.nan, math.nan
    resampled = np.exp(np.mean([np.log(ratio.resampled) for ratio in ratios], axis=0))
    low, high = np.quantile(resampled, [0.025, 0.975])
    return geometric_mean([ratio.value for ratio in ratios]), float(low), float(high)


def is_better(loss: float, other_loss: float, rounds: int) -> bool:
    """Whether a mean loss is significantly lower: the Z-test of the bandit bake-off.

    Bietti, Agarwal and Langford, "A contextual bandit bake-off", 2021. Losses are shares of wrong choices.

    >>> is_better(0.10, 0.12, rounds=2000), is_better(0.10, 0.11, rounds=2000)
    (True, False)
    """
    variance = (loss * (1.0 - loss) + other_loss * (1.0 - other_loss)) / rounds
    if variance == 0.0:
        return loss < other_loss
    return float(1.0 - ndtr((other_loss - loss) / math.sqrt(variance))) < SIGNIFICANCE


@dataclass(frozen=True)
class Record:
    """The subject against one opponent on the tables that both played."""

    opponent: str
    wins: tuple[str, ...]
    losses: tuple[str, ...]
    tables: int


def record_against(opponent: str, results: Results) -> Record:
    """Significant wins and losses of the subject on tables, by mean loss on common seeds."""
    wins, losses, tables = list[str](), list[str](), 0
    for result in results:
        other = _untuned(opponent, result)
        if result.problem.kind == TABLES and other is not None:
            own_loss, other_loss = (float(part.mean()) / result.horizon for part in result.subject.paired(other))
            tables += 1
            if is_better(own_loss, other_loss, result.horizon):
                wins.append(result.problem.name)
            elif is_better(other_loss, own_loss, result.horizon):
                losses.append(result.problem.name)
    return Record(opponent, tuple(wins), tuple(losses), tables)


@dataclass(frozen=True)
class Overview:
    """One policy over all problems that it played. Means are geometric."""

    policy: str
    by_kind: dict[str, float]
    """Mean regret of the default relative to the best default, for each kind."""
    default: float
    tuned: float
    """Mean regret of the tuned setting relative to the best tuned policy."""
    worst: float
    worst_problem: str
    """The default relative to the best default, where it is worst."""
    stuck_share: float
    """Mean share of stuck runs on the stuck problems."""
    problems: int


def overview(policy: str, results: Results) -> Overview:
    """Summarize a policy. It must have played at least one problem."""
    defaults, tuned, stuck = dict[str, float](), list[float](), list[float]()
    for result in results:
        own = _untuned(policy, result)
        if own is not None:
            defaults[result.problem.name] = result.relative(own, result.to_untuned)
            stuck += [own.stuck_share(result.uniform_mean)] if result.problem.kind == STUCK else []
        tuned += [result.relative(each, result.to_tuned) for each in result.tuned if each.policy == policy]
    kinds = {result.problem.name: result.problem.kind for result in results}
    by_kind = {
        kind: geometric_mean([ratio for name, ratio in defaults.items() if kinds[name] == kind])
        for kind in (TABLES, STUCK, OTHERS)
    }
    worst = max(defaults, key=lambda name: defaults[name])
    means = geometric_mean(list(defaults.values())), geometric_mean(tuned)
    stuck_share = float(np.mean(stuck)) if stuck else math.nan
    return Overview(policy, by_kind, *means, defaults[worst], worst, stuck_share, len(defaults))


def _untuned(policy: str, result: ProblemResult) -> PolicyResult | None:
    return next((each for each in result.results if each.policy == policy and not each.is_tuned), None)
