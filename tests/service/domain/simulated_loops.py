"""Simulated loops for tests of the verdict, and an independent formula for the evidence at every decision."""

from collections.abc import Iterator, Sequence

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.maths.online_statistics.confidence_sequence import BETS, LARGEST_LOSS, LOG_SHARES
from glbandits.service.domain.events import SettledDecision
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


def predictions(is_baseline: Floats, rewards: Floats) -> Floats:
    """Running means of the rewards of the baseline and of others, before each decision: (2, loops, decisions)."""
    means, counts = np.zeros((2, 2, len(rewards)))
    predicted = np.empty((2, *rewards.shape))
    for index in range(rewards.shape[1]):
        both = (0.5 + (means * counts).sum(axis=0)) / (1.0 + counts.sum(axis=0))
        predicted[:, :, index] = (means * counts + both) / (counts + 1.0)
        chosen = np.array([is_baseline[:, index], 1.0 - is_baseline[:, index]])
        counts += chosen
        means += chosen * (rewards[:, index] - means) / np.clip(counts, 1.0, 1000.0)
    return predicted


def log_evidence(baseline: Floats, is_baseline: Floats, rewards: Floats, predicted: Floats) -> Iterator[Floats]:
    """Yield the evidence at every decision, (loops, decisions), that the difference is above 0, and below 0."""
    w = (1.0 - baseline) / baseline
    for sign in (1.0, -1.0):
        mixed = np.full(rewards.shape, -np.inf)
        centres = _centres(sign, w, baseline, is_baseline, rewards, predicted)
        for bet, share in zip(np.minimum(BETS, LARGEST_LOSS / 2.0), LOG_SHARES, strict=True):
            k = LARGEST_LOSS / bet - 2.0
            terms = _terms(sign, w, baseline, is_baseline, rewards, predicted, k)
            gain = np.log1p(bet * (terms - centres)) + bet * centres
            np.logaddexp(mixed, share + gain.cumsum(axis=1), out=mixed)
        yield mixed


def _terms(
    sign: float, w: Floats, baseline: Floats, is_baseline: Floats, rewards: Floats, predicted: Floats, k: float
) -> Floats:
    """Return sign times sum_a h(a) q(a) + h(A) / p(A) (r - q(A)), q such that the last part is at least -k."""
    shown_predicted, others_predicted = predicted
    if sign > 0:
        q_baseline, q_others = np.maximum(shown_predicted, 1.0 - k / w), np.minimum(others_predicted, k)
    else:
        q_baseline, q_others = np.minimum(shown_predicted, k / w), np.maximum(others_predicted, 1.0 - k)
    direct = (1.0 - baseline) * (q_others - q_baseline)
    terms: Floats = sign * (direct + np.where(is_baseline > 0, -w * (rewards - q_baseline), rewards - q_others))
    return terms


def _centres(
    sign: float, w: Floats, baseline: Floats, is_baseline: Floats, rewards: Floats, predicted: Floats
) -> Floats:
    """The mean of earlier terms of the smallest bet, with ten rows of 0 before."""
    terms = _terms(sign, w, baseline, is_baseline, rewards, predicted, LARGEST_LOSS / BETS[-1] - 2.0)
    before = terms.cumsum(axis=1) - terms
    return np.clip(before / (10.0 + np.arange(terms.shape[1])), -1.0, 1.0)


def false_verdicts(loops: int, decisions: int, seed: int) -> int:
    """How many loops without any difference are called better or worse at some decision."""
    probabilities, shown, rewards = simulated(loops, decisions, (0.4, 0.4, 0.4), seed)
    baseline, is_baseline = probabilities[:, :, 0], (shown == 0).astype(np.float64)
    predicted = predictions(is_baseline, rewards)
    wrong, split, segment = np.zeros(loops, dtype=bool), 0, 0
    while 2 * split < decisions:
        # All decisions with a half of 5 %; segments that begin after 512, 1024, ... with shares of the other half.
        share = 0.025 if split == 0 else 0.025 / (segment * (segment + 1))
        looks = slice(0, None) if split == 0 else slice(split - 1, 3 * split - 1)
        columns = (array[..., split:] for array in (baseline, is_baseline, rewards, predicted))
        for evidence in log_evidence(*columns):
            wrong |= (evidence[:, looks] > np.log(2.0 / share)).any(axis=1)
        split, segment = max(512, 2 * split), segment + 1
    return int(wrong.sum())
