"""Treatment against control: false alarms over all looks, coverage, and units until a fall is found.

A guardrail looks after each block of 32 units and raises an alarm at evidence above 20. A bound of the 90 % interval is
wrong if it is at some look on the wrong side of the mean difference of the units after the first block; this may happen
in 5 % of loops. In cases without a difference between the groups, it is the same as a false alarm: "upper wrong" if
higher numbers are good, "lower wrong" if lower numbers are good. The bets were chosen on other problems.
"""

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.many_differences import ManyDifferences
from glbandits.common.arrays import Floats
from glbandits.maths.online_statistics.group_difference import BLOCK, GroupDifference, UnitRows

LOOPS, UNITS, SEED = 1000, 20_000, 39_000
ALARM, RATIO_ALARM = math.log(20.0), math.log(100.0)
SHARES, RATES = (0.05, 0.1, 0.2), (0.01, 0.05, 0.3)
FALL = 0.2


class Block(NamedTuple):
    """A block of units of all loops."""

    treated: npt.NDArray[np.bool_]
    share: float
    values: Floats
    covariates: Floats | None
    truth: Floats | float
    """The mean difference of the units of the block, in each loop."""


class Case(NamedTuple):
    """A kind of loops."""

    name: str
    share: float
    blocks: Callable[["Case", np.random.Generator], Iterator[Block]]
    rate: float = 0.05
    change: float = 0.0
    """The relative change of the rate by treatment."""
    strength: float = 0.0
    """The standard deviation of the logarithm of the rates of units, which the first covariate tells."""
    is_hidden: bool = False
    """Whether the comparison does not get the covariates."""
    loops: int = LOOPS
    units: int = UNITS
    detail: str = ""


def binary(case: Case, rng: np.random.Generator) -> Iterator[Block]:
    """Values 0 and 1, once for each unit. The rate of both groups may drift."""
    for start in range(0, case.units, BLOCK):
        share, rate, progress = case.share, case.rate, start / case.units
        if case.detail == "rate doubles":
            rate *= 1.0 + progress
        elif case.detail == "rate follows a sine":
            rate *= 1.0 + 0.9 * math.sin(20.0 * progress)
        elif case.detail == "rate jumps to 5 times":
            rate *= 5.0 if progress > 0.5 else 1.0
        elif case.detail == "share 5 %, then 30 %, then 10 %":
            share = 0.05 if progress < 0.3 else 0.3 if progress < 0.6 else 0.1
        treated = rng.random((case.loops, BLOCK)) >= share
        covariates: Floats | None = None
        rates: Floats | float = rate
        if case.strength:
            covariates = rng.normal(size=(case.loops, BLOCK, 2))
            rates = rate * np.exp(case.strength * covariates[:, :, 0] - case.strength**2 / 2.0)
            covariates[:, :, 0] = rates
        values = rng.random(treated.shape) < rates * np.where(treated, 1.0 + case.change, 1.0)
        shown = None if case.is_hidden else covariates
        yield Block(treated, share, values.astype(np.float64), shown, rate * case.change)


def returning(case: Case, rng: np.random.Generator) -> Iterator[Block]:
    """Units that come 1 to 20 times, few of them often, each with its own rate; the sum or the mean of their values."""
    visits = np.arange(1, 21)
    for _ in range(0, case.units, BLOCK):
        treated = rng.random((case.loops, BLOCK)) >= case.share
        times = rng.choice(visits, size=treated.shape, p=visits**-1.5 / (visits**-1.5).sum())
        sums = rng.binomial(times, rng.beta(0.5, 0.5 / case.rate - 0.5, size=treated.shape)).astype(np.float64)
        yield Block(treated, case.share, sums / (20.0 if case.detail == "sum" else times), None, 0.0)


def learning(case: Case, rng: np.random.Generator) -> Iterator[Block]:
    """Treatment shows the better of two actions by its own values so far; control has the mean of their rates."""
    rates = case.rate * np.array([0.8, 1.2])
    successes, shown = np.ones((case.loops, 2)), np.full((case.loops, 2), 1.0 / case.rate)
    for _ in range(0, case.units, BLOCK):
        treated = rng.random((case.loops, BLOCK)) >= case.share
        best = (successes / shown).argmax(axis=1)
        explored = rng.random(treated.shape) < 0.1
        action = np.where(explored, rng.integers(2, size=treated.shape), best[:, np.newaxis])
        values = (rng.random(treated.shape) < np.where(treated, rates[action], case.rate)).astype(np.float64)
        for index in range(2):
            own = treated & (action == index)
            successes[:, index] += (own * values).sum(axis=1)
            shown[:, index] += own.sum(axis=1)

        yield Block(treated, case.share, values, None, 0.9 * (rates[best] - case.rate))


def false_alarm_cases() -> list[Case]:
    """The cases of the first table."""
    cases = [
        Case(f"rate {rate:.0%}", share, binary, rate=rate, units=60_000 if rate == 0.05 else UNITS)
        for rate in RATES
        for share in SHARES
    ]
    cases += [
        Case(f"1 to 20 visits, {kind}", share, returning, detail=kind) for kind in ("sum", "mean") for share in SHARES
    ]
    drifts = ("rate doubles", "rate follows a sine", "rate jumps to 5 times", "share 5 %, then 30 %, then 10 %")
    cases += [Case(drift, 0.1, binary, detail=drift, strength=strength) for drift in drifts for strength in (0.0, 1.0)]
    cases += [Case("treatment learns", share, learning) for share in (0.05, 0.2)]
    cases += [Case("fall of 20 %", 0.1, binary, change=-FALL), Case("rise of 50 %", 0.1, binary, change=0.5)]
    return cases


def fall_cases() -> list[Case]:
    """The cases of the second table."""
    units = {0.2: 60_000, 0.1: 100_000, 0.05: 160_000}
    return [
        Case("", share, binary, change=sign * FALL, strength=1.0, is_hidden=is_hidden, loops=400, units=units[share])
        for sign in (-1.0, 1.0)
        for is_hidden in (True, False)
        for share in sorted(SHARES, reverse=True)
    ]


class Outcome(NamedTuple):
    """What happened in the loops of a case; a time is infinite if it never happened."""

    lower_wrong: float
    upper_wrong: float
    either_wrong: float
    ratio_alarms: float
    fall_found: Floats
    rise_found: Floats


def play(case: Case) -> Outcome:
    """Simulate the loops of a case."""
    rng = np.random.default_rng([SEED, hash_of(case)])
    many, first = ManyDifferences(case.loops), GroupDifference()
    wrong = np.zeros((2, case.loops), dtype=bool)
    ratio = np.zeros(case.loops, dtype=bool)
    found = np.full((2, case.loops), np.inf)
    truth: Floats | float = 0.0
    for block in case.blocks(case, rng):
        many.add(*block[:4])
        if many.terms:
            truth = truth + BLOCK * np.asarray(block.truth)
            wrong |= many.log_evidence(truth / many.terms) > ALARM
        ratio |= many.log_evidence_of_ratio() > RATIO_ALARM
        found = np.where((many.log_evidence(0.0) > ALARM) & np.isinf(found), many.units, found)
        if many.units <= 100 * BLOCK:
            covariates = np.zeros((BLOCK, 2)) if block.covariates is None else block.covariates[0]
            missing = np.zeros(BLOCK, dtype=bool)
            first.add(UnitRows(block.treated[0], np.full(BLOCK, block.share), block.values[0], covariates, missing))
            same = (first.log_evidence(0.0, higher_is_good=False), first.log_evidence(0.0, higher_is_good=True))
            np.testing.assert_allclose(many.log_evidence(0.0)[:, 0], same, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(many.log_evidence_of_ratio()[0], first.log_evidence_of_ratio(), atol=1e-6)
        if case.change and case.loops < LOOPS and (found[0 if case.change > 0.0 else 1] < np.inf).mean() > 0.91:
            break
    lower, upper, either = float(wrong[0].mean()), float(wrong[1].mean()), float(wrong.any(axis=0).mean())
    return Outcome(lower, upper, either, float(ratio.mean()), fall_found=found[1], rise_found=found[0])


def hash_of(case: Case) -> int:
    """A number for the seed of a case. Cases that differ only in the use of covariates have the same."""
    return sum(ord(letter) * (index + 1) for index, letter in enumerate(f"{case.name} {case.share} {case.rate}"))


def report() -> None:
    """Print both tables."""
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 2)) as pool:
        cases = false_alarm_cases()
        print(
            f"{LOOPS:,} loops of {UNITS:,} units (rate 5 %: 60,000) in each case; loops in which it happened at a look"
        )
        print(f"{'case':34s} {'covariate':>9s} {'share':>6s} {'lower wrong':>12s} {'upper wrong':>12s} ", end="")
        print(f"{'either':>7s} {'ratio alarm':>12s}")
        for case, outcome in zip(cases, pool.map(play, cases), strict=True):
            print(f"{case.name:34s} {'yes' if case.strength else 'no':>9s} {case.share:6.0%} ", end="")
            print(f"{outcome.lower_wrong:12.1%} {outcome.upper_wrong:12.1%} {outcome.either_wrong:7.1%} ", end="")
            print(f"{outcome.ratio_alarms:12.1%}", flush=True)
        print("\nunits until the alarm, in the same 400 loops with and without the covariate; rate 5 % in control")
        print(f"{'treatment':34s} {'covariate':>9s} {'share':>6s} {'half':>12s} {'90 %':>12s}")
        cases = fall_cases()
        for case, outcome in zip(cases, pool.map(play, cases), strict=True):
            times = outcome.fall_found if case.change < 0.0 else outcome.rise_found
            half, most = np.quantile(times, [0.5, 0.9], method="higher")
            name = f"{case.rate * (1.0 + case.change):.0%}"
            texts = [f"over {case.units:,}" if math.isinf(count) else f"{count:,.0f}" for count in (half, most)]
            print(
                f"{name:34s} {'no' if case.is_hidden else 'yes':>9s} {case.share:6.0%} {texts[0]:>12s} {texts[1]:>12s}"
            )
