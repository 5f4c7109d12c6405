"""The verdict of the dashboard: decisions until "better", against an oracle, and wrong verdicts over all looks.

Each loop is the default policy with the default exploration of 20 %. Arms have no features, the first is the baseline,
and the last may be better. The verdicts are read after every 64 decisions. The oracle gets the same decisions and the
same share of the 5 %, knows the mean rewards, and bets the one constant that is best for the case, found afterwards
among nine. "One look" is the number of decisions at which an ordinary test finds it in half of the loops, if made only
then.
"""

import math
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from glbandits import Bandit, Optimist
from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.maths.online_statistics.confidence_sequence import BetGrid, ConfidenceSequence
from glbandits.service.domain.events import Aggregation, Decision, Mode, SettledDecision
from glbandits.service.domain.evidence import LOWEST_DIFFERENCE, LoopEvidence
from glbandits.service.domain.verdict import (
    ALPHA_PAST,
    ALPHA_UNIFORM,
    LoopVerdict,
    judge_past,
    judge_present,
    judge_uniform,
)

EXPLORATION, LEARNED_EVERY, LOOK, SEED = 0.2, 8, 64, 41_000
LOOPS, DECISIONS, NULL_LOOPS, NULL_DECISIONS = 60, 32_768, 500, 4096
CASES = (0.1, 0.1, 0.15), (0.1, 0.1, 0.1, 0.1, 0.15), (0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.15)
NULL_CASES = (0.1, 0.1, 0.1), (0.1, 0.1, 0.1, 0.1, 0.1), (0.5, 0.5, 0.5)
NAMES, JUDGES, ALPHAS = ("random choice", "the baseline"), (judge_uniform, judge_past), (ALPHA_UNIFORM, ALPHA_PAST)
BETS: Floats = np.geomspace(0.01, 0.16, 9)
SHOWN = tuple(1024 << power for power in range(6))


class Log(NamedTuple):
    """The decisions of a loop."""

    models: Floats
    """The probability of each arm, (decisions, arms)."""
    shown: Ints
    rewards: Floats

    def settled(self) -> list[SettledDecision]:
        """Return the decisions as the service has them."""
        names, settled = tuple(map(str, range(self.models.shape[1]))), list[SettledDecision]()
        for model, arm, reward in zip(self.models.tolist(), self.shown.tolist(), self.rewards.tolist(), strict=True):
            decision = Decision(
                loop="",
                event_id="",
                learned_through=0,
                request=b"",
                encoding="json",
                actions=names,
                timestamp=len(settled),
                chosen=arm,
                shown=arm,
                probability=model[arm],
                probabilities=tuple(model),
                mode=Mode.ONLINE,
                reward_window=1,
                default_reward=0.0,
                aggregation=Aggregation.EARLIEST,
                exploration=EXPLORATION,
                seed=0,
            )
            settled.append(SettledDecision(len(settled) + 1, decision, ((len(settled), reward),), activated=False))
        return settled


def play(means: Sequence[float], count: int, loop: int) -> Log:
    """Simulate a loop that learns after every 8 decisions."""
    rng, arms = np.random.default_rng([SEED, loop]), np.eye(len(means))
    bandit = Bandit(Optimist(link="identity"), len(means), seed=0)
    log = Log(np.empty((count, len(means))), np.empty(count, dtype=np.int64), np.empty(count))
    for start in range(0, count, LEARNED_EVERY):
        rows, own = slice(start, start + LEARNED_EVERY), bandit.exact_probabilities(arms)
        assert own is not None
        log.models[rows] = model = (1.0 - EXPLORATION) * own + EXPLORATION / len(means)
        log.shown[rows] = shown = np.searchsorted(model.cumsum()[:-1], rng.random(LEARNED_EVERY))
        log.rewards[rows] = rewards = (rng.random(LEARNED_EVERY) < np.array(means)[shown]).astype(np.float64)
        bandit.learn_batch(arms[shown], rewards)
    return log


def is_wrong(means: Sequence[float], loop: int) -> bool:
    """Whether a loop whose arms are equal is ever called better or worse."""
    settled, evidence = play(means, NULL_DECISIONS, loop).settled(), LoopEvidence()
    for start in range(0, len(settled), LOOK):
        evidence = evidence.extended_by(settled[start : start + LOOK], (0.0, 1.0))
        verdicts = {judge(evidence).verdict for judge in (*JUDGES, judge_present)}
        if verdicts & {LoopVerdict.BETTER, LoopVerdict.WORSE}:
            return True
    return False


def first_better(means: Sequence[float], loop: int) -> tuple[Floats, Bools]:
    """Return the decisions until "better", (comparisons, verdict and bets of the oracle), and the test at each look."""
    log, evidence = play(means, DECISIONS, loop), LoopEvidence()
    settled, found = log.settled(), np.full((2, 1 + len(BETS)), np.inf)
    for start in range(0, len(settled), LOOK):
        evidence = evidence.extended_by(settled[start : start + LOOK], (0.0, 1.0))
        for index in np.flatnonzero(np.isinf(found[:, 0])).tolist():
            if JUDGES[index](evidence).verdict is LoopVerdict.BETTER:
                found[index, 0] = start + LOOK
    others = np.full(len(means), 1.0 / len(means)), np.eye(len(means))[0]
    tests = []
    for index, other in enumerate(others):
        found[index, 1:] = [oracle(log, means, other, bet, ALPHAS[index]) for bet in BETS]
        tests.append(is_significant(log, means, other))
    return found, np.array(tests)


def oracle(log: Log, means: Sequence[float], other: Floats, bet: float, alpha: float) -> float:
    """Return the decisions until one constant bet on true means has enough evidence that the loop is better."""
    sequence = ConfidenceSequence(LOWEST_DIFFERENCE, BetGrid(np.array([bet]), np.zeros(1), largest_loss=0.9))
    for start in range(0, len(log.shown), LOOK):
        rows = slice(start, start + LOOK)
        models, shown, rewards = log.models[rows], log.shown[rows], log.rewards[rows]
        measure = models - other
        sequence.add(
            measure=measure,
            reach=np.abs(measure) / models,
            chosen=shown,
            weights=(measure / models)[np.arange(len(shown)), shown],
            rewards=rewards,
            predicted=np.tile(means, (len(shown), 1)),
        )
        if sequence.above.log_evidence(0.0) > math.log(2.0 / alpha):
            return float(start + LOOK)
    return math.inf


def is_significant(log: Log, means: Sequence[float], other: Floats) -> Bools:
    """Whether the mean of the terms with true means is more than 1.96 standard errors above 0, at each look."""
    measure, rows = log.models - other, np.arange(len(log.shown))
    weights = (measure / log.models)[rows, log.shown]
    terms = measure @ np.array(means) + weights * (log.rewards - np.array(means)[log.shown])
    mean, square = (np.cumsum(power)[LOOK - 1 :: LOOK] / rows[LOOK - 1 :: LOOK] for power in (terms, terms**2))
    significant: Bools = mean * np.sqrt(rows[LOOK - 1 :: LOOK]) > 1.96 * np.sqrt(square - mean**2)
    return significant


def text(decisions: float) -> str:
    """A number of decisions; infinite if it is more than were simulated."""
    return f"over {DECISIONS:,}" if math.isinf(decisions) else f"{decisions:,.0f}"


def report() -> None:
    """Print both tables."""
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 2)) as pool:
        print(f"share of {LOOPS} loops called better by then, and decisions until half of them are")
        print(f"{'arms':21s} {'better than':14s}" + "".join(f"{count:>8,}" for count in SHOWN), end="")
        print(f" {'half':>12s} {'oracle':>12s} {'one look':>12s}")
        for means in CASES:
            loops = list(pool.map(partial(first_better, means), range(LOOPS), chunksize=5))
            found, tests = (np.array(part) for part in zip(*loops, strict=True))
            half = np.quantile(found, 0.5, axis=0, method="higher")
            for index, name in enumerate(NAMES):
                by_then = (found[:, index, 0, np.newaxis] <= SHOWN).mean(axis=0)
                weak = np.flatnonzero(tests[:, index].mean(axis=0) < 0.5)
                print(f"{f'{len(means)}, .15 against .10':21s} {name:14s}", end="")
                print("".join(f"{share:8.2f}" for share in by_then), end=" ")
                ends = half[index, 0], half[index, 1:].min(), float(LOOK * (weak[-1] + 2))
                print(" ".join(f"{text(end):>12s}" for end in ends), flush=True)
        print(f"\nwrong verdicts of any kind at some look, {NULL_LOOPS} loops of {NULL_DECISIONS:,} decisions")
        for means in NULL_CASES:
            wrong = sum(pool.map(partial(is_wrong, means), range(NULL_LOOPS), chunksize=10))
            print(f"{f'{len(means)} arms of {means[0]}':21s} {wrong:4d} ({wrong / NULL_LOOPS:.1%})", flush=True)
