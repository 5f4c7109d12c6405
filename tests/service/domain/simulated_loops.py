"""Simulated loops for tests of the verdict, and an independent formula for the evidence at every decision."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from glbandits.common.arrays import Bools, Floats
from glbandits.service.domain.events import SettledDecision
from glbandits.service.domain.evidence import GRID
from glbandits.service.domain.verdict import ALPHA_PAST, ALPHA_PRESENT, ALPHA_UNIFORM
from tests.service.helpers import decision

ARMS, FLOOR, LEARNED_EVERY = 3, 0.3, 20


def simulated(loops: int, decisions: int, means: Sequence[float], seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Loops of a policy that learns from three arms, of which the first is the baseline, while the world drifts.

    Returns the probabilities of all arms, (loops, decisions, arms), and the shown arms and rewards, (loops, decisions).
    """
    rng = np.random.default_rng(seed)
    sums, counts = np.zeros((loops, ARMS)), np.ones((loops, ARMS))
    probabilities, shown, rewards = np.empty((loops, decisions, ARMS)), *np.empty((2, loops, decisions))
    all_loops = np.arange(loops)
    for index in range(decisions):
        if index % LEARNED_EVERY == 0:
            model = np.full((loops, ARMS), FLOOR / ARMS)
            model[all_loops, (sums / counts).argmax(axis=1)] += 1.0 - FLOOR
        arms = (rng.random((loops, 1)) > model.cumsum(axis=1)).sum(axis=1).clip(0, ARMS - 1)
        drift = 0.1 * np.sin(index / 200.0)
        won = rng.random(loops) < np.array(means)[arms] + drift
        sums[all_loops, arms] += won
        counts[all_loops, arms] += 1.0
        probabilities[:, index], shown[:, index], rewards[:, index] = model, arms, won
    return probabilities, shown, rewards


def settled(probabilities: Floats, shown: Floats, rewards: Floats, first: int = 0) -> list[SettledDecision]:
    """The decisions of one loop, one a second, with rewards between 0 and 1."""
    return [
        SettledDecision(
            index + 1,
            decision(
                f"e{index}",
                1_000_000 * index,
                shown=int(arm),
                chosen=int(arm),
                probability=model[int(arm)],
                probabilities=tuple(model),
                reward_range=(0.0, 1.0),
            ),
            ((1_000_000 * index + 5, reward),),
            activated=False,
        )
        for index, (model, arm, reward) in enumerate(
            zip(probabilities.tolist(), shown.tolist(), rewards.tolist(), strict=True), first
        )
    ]


class Comparison(NamedTuple):
    """The decisions of all loops as evidence against another choice, arrays (loops, decisions)."""

    gain: Floats
    """The sum of the positive differences between the probabilities and those of the other choice."""
    reach: Floats
    weights: Floats
    rewards: Floats
    predicted: Floats
    """The running means of rewards with weights below 0, and of the others, (2, loops, decisions)."""

    def after(self, first: int) -> "Comparison":
        """Without the decisions before `first`."""
        gain, reach, weights, rewards = (array[:, first:] for array in self[:4])
        return Comparison(gain, reach, weights, rewards, self.predicted[:, :, first:])


def compared(probabilities: Floats, shown: Floats, rewards: Floats, other: Sequence[float]) -> Comparison:
    """Compare loops with a choice of the probabilities `other`."""
    measure = probabilities - np.array(other)
    all_weights = measure / probabilities
    weights = np.take_along_axis(all_weights, shown[..., np.newaxis].astype(np.int64), axis=2)[..., 0]
    reach = np.maximum(-all_weights.min(axis=2), 0.0)
    gain = np.maximum(measure, 0.0).sum(axis=2)
    return Comparison(gain, reach, weights, rewards, _predictions(weights < 0.0, rewards))


def _predictions(is_lower: Bools, rewards: Floats) -> Floats:
    means, counts = np.zeros((2, 2, len(rewards)))
    predicted = np.empty((2, *rewards.shape))
    for index in range(rewards.shape[1]):
        both = (0.5 + (means * counts).sum(axis=0)) / (1.0 + counts.sum(axis=0))
        predicted[:, :, index] = (means * counts + both) / (counts + 1.0)
        chosen = np.array([is_lower[:, index], ~is_lower[:, index]])
        counts += chosen
        means += chosen * (rewards[:, index] - means) / np.clip(counts, 1.0, 1000.0)
    return predicted


def log_evidence(compared: Comparison) -> Iterator[Floats]:
    """Yield the evidence at every decision, (loops, decisions), that the difference is above 0, and below 0."""
    for sign in (1.0, -1.0):
        mixed = np.full(compared.rewards.shape, -np.inf)
        centres = _centres(sign, compared)
        for bet, share in zip(GRID.bets, GRID.log_shares, strict=True):
            gain = np.log1p(bet * (_terms(sign, compared, bet) - centres)) + bet * centres
            np.logaddexp(mixed, share + gain.cumsum(axis=1), out=mixed)
        yield mixed


def _terms(sign: float, compared: Comparison, bet: float) -> Floats:
    """Return sign times the term of `contrasts`, with q clipped such that its last part is at least -k."""
    k = GRID.largest_loss / bet - 2.0
    lower, upper = compared.predicted
    with np.errstate(divide="ignore"):
        room = k / compared.reach
    if sign > 0:
        lower, upper = np.maximum(lower, 1.0 - room), np.minimum(upper, k)
    else:
        lower, upper = np.minimum(lower, room), np.maximum(upper, 1.0 - k)
    own = np.where(compared.weights < 0.0, lower, upper)
    terms: Floats = sign * (compared.gain * (upper - lower) + compared.weights * (compared.rewards - own))
    return terms


def _centres(sign: float, compared: Comparison) -> Floats:
    """The mean of earlier terms of the smallest bet, with ten rows of 0 before."""
    terms = _terms(sign, compared, float(GRID.bets[-1]))
    before = terms.cumsum(axis=1) - terms
    return np.clip(before / (10.0 + np.arange(terms.shape[1])), -1.0, 1.0)


def false_verdicts(loops: int, decisions: int, seed: int) -> int:
    """How many loops without any difference are called better or worse at some decision."""
    log = simulated(loops, decisions, (0.4, 0.4, 0.4), seed)
    baseline, uniform = compared(*log, (1.0, 0.0, 0.0)), compared(*log, ARMS * (1.0 / ARMS,))
    wrong = _called(baseline, ALPHA_PAST) | _called(uniform, ALPHA_UNIFORM)
    split, segment = 512, 0
    while 2 * split < decisions:  # segments of the present model start after 512, 1024, ... decisions
        looks = slice(split - 1, 3 * split - 1)
        wrong |= _called(baseline.after(split), ALPHA_PRESENT / ((segment + 1) * (segment + 2)), looks)
        split, segment = 2 * split, segment + 1
    return int(wrong.sum())


def _called(compared: Comparison, alpha: float, looks: slice = slice(None)) -> Bools:
    """Whether each loop is called better or worse at some look."""
    called: Bools = np.zeros(len(compared.rewards), dtype=np.bool_)
    for evidence in log_evidence(compared):
        called |= (evidence[:, looks] > np.log(2.0 / alpha)).any(axis=1)
    return called
