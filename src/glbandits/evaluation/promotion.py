"""The promotion gate: decide whether a candidate should replace the logging policy.

The gate may be run at any time while the log grows. With probability 1 - alpha, none of its runs promotes a candidate
that is worse than the running policy was on the compared rows. Two properties guarantee this:

- The gain of each candidate has a confidence sequence (`estimators.anytime`), and m candidates share alpha equally.
- The running policy learns, so old rows are not informative about it. A run compares the rows from row s on, where s is
  the largest of 512, 1024, 2048, ... that is at most half of the log. Candidates learn from the rows before s only.
  Each s starts new confidence sequences with the share 1 / ((i + 1) (i + 2)) of alpha, i = 0, 1, 2, ...; all shares sum
  to 1.

The verdict is "promote" if the lower bound of a gain is above 0, "keep" if the upper bounds of all gains are at most
`margin`, and "wait" otherwise (`_verdict`). A candidate on which the log has not enough evidence has no gain.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import percent
from glbandits.common.errors import InvalidInput, check_float, check_int
from glbandits.evaluation.estimators.anytime import AnytimeInterval, AnytimeIntervals, why_no_anytime_interval
from glbandits.evaluation.estimators.frozen_target import FrozenTarget
from glbandits.evaluation.estimators.log_rows import RowReader
from glbandits.evaluation.estimators.support import SupportSums
from glbandits.evaluation.estimators.targets import Target, TargetLike, UniformTarget, as_target, target_probabilities
from glbandits.evaluation.logs.log_slice import LogSlice
from glbandits.evaluation.logs.logged_data import Log, first_row_of
from glbandits.evaluation.logs.payoffs import payoff_range
from glbandits.evaluation.logs.reward_checks import check_reward_range
from glbandits.evaluation.models.reward_models import SequentialGlm
from glbandits.evaluation.replay.train import train
from glbandits.maths.links import find_link
from glbandits.policies import Policy

FIRST_SPLIT = 512
"""The first value of s: number of rows that candidates learn at the first comparison."""


class Verdict(StrEnum):
    """Decision of the gate."""

    PROMOTE = "promote"
    """A candidate is better than the running policy."""
    KEEP = "keep"
    """No candidate is better than the running policy by more than `Promotion.margin`."""
    WAIT = "wait"
    """The log does not have enough evidence yet."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Promotion:
    """The result of the gate. `str()` is a text with all gains."""

    verdict: Verdict
    candidate: str | None
    """The candidate to promote: the one with the largest lower bound; None unless the verdict is PROMOTE."""
    gains: Mapping[str, AnytimeInterval]
    """Gain of each candidate over the running policy. Each interval holds at its share of alpha."""
    no_evidence: Mapping[str, str]
    """Why a candidate has no gain, by its name (`Support.no_evidence`). It cannot be promoted, and prevents "keep"."""
    first_row: int
    """Index of the first compared row."""
    alpha: float
    margin: float
    rows_needed: float
    """Approximate number of rows for a verdict; NaN if there is one, inf if it cannot be estimated."""
    unit: str = "reward"
    """What gains are differences of: "reward", or "payoff" if the log has values."""

    @property
    def headline(self) -> str:
        """The verdict as a sentence."""
        return {
            Verdict.PROMOTE: f"Promote {self.candidate}: it is better than the running policy.",
            Verdict.KEEP: f"Keep the running policy: no candidate is better by more than {self.margin:g}.",
            Verdict.WAIT: f"Wait: the log does not have enough evidence yet{_until(self.rows_needed)}.",
        }[self.verdict]

    @property
    def guarantee(self) -> str:
        """The meaning of alpha as a sentence."""
        worse = "a candidate that is worse than the running policy was on the compared rows"
        return f"At most {percent(self.alpha)} of such gates ever promote {worse}."

    def __str__(self) -> str:
        if not self.gains and not self.no_evidence:
            return self.headline
        width = max(map(len, [*self.gains, *self.no_evidence]))
        lines = [
            f"  {name:{width}s} {gain.value:+.5f}  [{gain.low:+.5f}, {gain.high:+.5f}]"
            for name, gain in self.gains.items()
        ]
        lines += [f"  {name:{width}s} {reason}" for name, reason in self.no_evidence.items()]
        of = "" if self.unit == "reward" else f" in {self.unit}"
        title = f"Gain{of} over the running policy, from row {self.first_row + 1:,} on, with anytime-valid intervals:"
        return "\n".join([self.headline, title, *lines, self.guarantee])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [
            (name, f"{gain.value:+.5f}", f"{gain.low:+.5f} to {gain.high:+.5f}") for name, gain in self.gains.items()
        ] + [(name, "", reason) for name, reason in self.no_evidence.items()]
        columns = "candidate", "gain over the running policy", "anytime-valid interval"
        return DataTable(columns, rows, notes=(self.headline, self.guarantee)).to_html()


def _until(rows: float) -> str:
    return f"; about {rows:,.0f} rows would be enough" if math.isfinite(rows) else ""


def promotion(
    log: Log,
    candidates: Mapping[str, Policy | TargetLike],
    *,
    alpha: float = 0.05,
    margin: float = 0.0,
    reward_range: tuple[float, float] | None = None,
    least_propensity: float | None = None,
    exploration: float = 0.0,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Promotion:
    """Decide whether a candidate should replace the logging policy: promote, keep, or wait.

    It may be called repeatedly while the log grows, with the same candidates, alpha and seed.

    Args:
        log: a log with propensities. Intervals are narrower with the probabilities of all arms
            (`LoggedData.probabilities`).
        candidates: candidates by name. A `Policy` learns the first rows of the log. Any other target of `evaluate` is
            used unchanged, and must not have learned from this log.
        alpha: bound on the probability that the gate ever promotes a candidate that is worse than the running policy
            was on the compared rows, over all calls and candidates. The running policy may have improved since these
            rows.
        margin: a gain that is too small to wait for. "Keep" means that no gain exceeds it. A larger margin ends the
            comparison earlier. It does not prevent the promotion of a candidate with a smaller gain.
        reward_range: lowest and highest possible reward; by default those of the link.
        least_propensity: lower bound on the probabilities of the logging policy; see `evaluate`.
        exploration: the share of decisions that will be random, whichever candidate runs. Without it, a candidate would
            seem better only because the running policy explores.
        seed: seed of the candidates.
        progress: called with the number of rows done, and of all rows.
    """
    if not candidates:
        raise InvalidInput("candidates is empty. Name at least one candidate.")
    alpha = check_float("alpha", alpha, at_least=1e-9, at_most=0.5)
    margin, seed = check_float("margin", margin, at_least=0), check_int("seed", seed, at_least=0)
    exploration = check_float("exploration", exploration, at_least=0, at_most=1)
    if least_propensity is not None:
        least_propensity = check_float("least_propensity", least_propensity, above=0, at_most=1)
    head = first_row_of(log)
    if head.propensities is None:
        raise InvalidInput("the log must have propensities. Log the probability of each chosen arm.")
    link = find_link(head.link)
    bounds = check_reward_range(reward_range, link)
    payoff_bounds = payoff_range(log, bounds)
    if not all(map(math.isfinite, bounds)):
        raise InvalidInput(
            f"the gate needs rewards with bounds, and the {link.name} link has none. Give the lowest and the "
            "highest possible reward (--reward-range, in Python reward_range), or read the log with a link that has "
            "bounds, such as 'logistic'",
            field="reward_range",
        )
    reason = why_no_anytime_interval(head, bounds)
    if reason:
        raise InvalidInput(f"the gate needs anytime-valid intervals, and this log has none: {reason}.")
    if len(log) < 2 * FIRST_SPLIT:
        return Promotion(
            verdict=Verdict.WAIT,
            candidate=None,
            gains={},
            no_evidence={},
            first_row=len(log),
            alpha=alpha,
            margin=margin,
            rows_needed=2 * FIRST_SPLIT,
            unit=head.unit,
        )
    index = int(math.log2(len(log) / (2 * FIRST_SPLIT)))
    split = FIRST_SPLIT << index
    share = alpha / ((index + 1) * (index + 2)) / len(candidates)
    learned = LogSlice(log, 0, split)
    targets = {name: _frozen(candidate, learned, log, seed) for name, candidate in candidates.items()}
    sequences = {name: AnytimeIntervals(payoff_bounds, least_propensity) for name in candidates}
    supports = {name: SupportSums(head.arms.max_arms if head.arms.same_arms else None) for name in candidates}
    model = SequentialGlm(link, log.dim, sparse=log.sparse)
    reader, done = RowReader(bounds, None, model, split, payoff_bounds), split
    for block in LogSlice(log, split, len(log)).blocks():
        rows, random = reader.read(block), UniformTarget().probabilities(block, done)
        for name, target in targets.items():
            probabilities = target_probabilities(target, block, done)
            probabilities = (1.0 - exploration) * probabilities + exploration * random
            sequences[name].add(rows, probabilities)
            supports[name].add(block, probabilities, rows.of_chosen(probabilities) / rows.propensities)
        done += len(block)
        if progress is not None:
            progress(done, len(log))
    reasons = {name: sums.support(least_propensity=least_propensity).no_evidence() for name, sums in supports.items()}
    no_evidence = {name: reason for name, reason in reasons.items() if reason}
    gains = {name: each.gain(1.0 - 2.0 * share) for name, each in sequences.items() if name not in no_evidence}
    return replace(_verdict(gains, no_evidence, split, alpha, margin), unit=head.unit)


def _frozen(candidate: Policy | TargetLike, learn_from: LogSlice, log: Log, seed: int) -> Target:
    if not isinstance(candidate, Policy):
        return as_target(candidate, log)
    return FrozenTarget(train(learn_from, candidate, seed=seed), seed)


def _verdict(
    gains: Mapping[str, AnytimeInterval], no_evidence: Mapping[str, str], split: int, alpha: float, margin: float
) -> Promotion:
    best = max(gains, key=lambda name: gains[name].low, default=None)
    if best is not None and gains[best].low > 0.0:
        verdict, needed = Verdict.PROMOTE, math.nan
    elif not no_evidence and all(gain.high <= margin for gain in gains.values()):
        verdict, needed = Verdict.KEEP, math.nan
    else:
        needed = 2.0 * min((gain.rows_to_exclude_zero() for gain in gains.values()), default=math.inf)
        verdict = Verdict.WAIT
    return Promotion(
        verdict=verdict,
        candidate=best if verdict is Verdict.PROMOTE else None,
        gains=gains,
        no_evidence=no_evidence,
        first_row=split,
        alpha=alpha,
        margin=margin,
        rows_needed=needed,
    )
