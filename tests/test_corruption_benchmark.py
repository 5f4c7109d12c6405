"""The benchmark of false rewards: which rewards are false, and its table."""

import numpy as np
import pytest
from benchmarks.corruption import EARLY, ONE_ARM, PROBLEMS, RANDOM, Corrupted, report

from glbandits.common.arrays import Floats
from glbandits.lab import Synthetic

ROUNDS = 200
LOGISTIC = Synthetic(dim=3, arms=4)
IDENTITY = Synthetic(dim=3, arms=4, link="identity", rewards="gaussian")


def means(problem: Synthetic, kind: str, share: float) -> tuple[Floats, Floats]:
    """The mean of each arm's reward as reported and in truth, (rounds, arms)."""
    lying = Corrupted(problem=problem, kind=kind, share=share, horizon=ROUNDS)
    blocks = list(lying.rounds(ROUNDS, seed=1))
    return np.concatenate([block.expected for block in blocks]), np.concatenate([block.payoffs for block in blocks])


def test_honest_rewards_are_those_of_the_problem() -> None:
    reported, true = means(LOGISTIC, RANDOM, 0.0)
    np.testing.assert_array_equal(reported, true)


def test_random_lies_turn_rewards_around() -> None:
    reported, true = means(LOGISTIC, RANDOM, 1.0)
    np.testing.assert_allclose(reported, 1.0 - true)
    reported, true = means(IDENTITY, RANDOM, 1.0)
    np.testing.assert_allclose(reported, -true)


@pytest.mark.parametrize(("problem", "low"), [(LOGISTIC, 0.0), (IDENTITY, -1.0)])
def test_lies_for_one_arm_favour_the_worst(problem: Synthetic, low: float) -> None:
    reported, true = means(problem, ONE_ARM, 1.0)
    np.testing.assert_array_equal(reported.argmax(axis=1), true.argmin(axis=1))
    np.testing.assert_array_equal(np.sort(reported, axis=1), np.tile([low, low, low, 1.0], (ROUNDS, 1)))


def test_share_of_lies_is_as_declared() -> None:
    reported, true = means(LOGISTIC, ONE_ARM, 0.1)
    assert (
        8 <= np.count_nonzero((reported != true).any(axis=1)) <= 34
    )  # on this seed; 20 expected, standard deviation 4.2
    reported, true = means(LOGISTIC, EARLY, 0.1)
    np.testing.assert_array_equal((reported != true).any(axis=1), np.arange(ROUNDS) < 20)


def test_quick_report_prints_every_policy(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("optimist", "pg-ts", "uniform")
    problems = {title: PROBLEMS[title] for title in ("one-hot arms, K=10, .5 and .3", "identity link, d=8, K=20")}
    report(names, problems, seeds=range(2), rounds=10)
    printed = capsys.readouterr().out.splitlines()
    assert [line[:24].strip() for line in printed[-4:]] == [
        "optimist, auto",
        "optimist",
        "pg-ts (1 of 2)",
        "uniform",
    ]
    assert [line.count("+-") for line in printed[-4:]] == [10, 10, 4, 10]
    assert printed[-3].split()[1:] == ["1.00+-0.00"] * 10
