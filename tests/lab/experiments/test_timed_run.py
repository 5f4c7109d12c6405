from itertools import repeat

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput, Policy, SgdTs, UcbGlm
from glbandits.lab import Synthetic
from glbandits.lab.experiments.timed_run import timed_run

PROBLEM = Synthetic(dim=2, arms=4)


def test_final_state_equals_that_of_a_bandit() -> None:
    policy, seed = SgdTs(block_length=10), 3
    run = timed_run(policy, 2, PROBLEM.noise, PROBLEM.rounds(55, seed), seed)
    bandit = Bandit(policy, dim=2, seed=seed)
    for chunk in PROBLEM.rounds(55, seed):
        for arms, expected, noise in zip(chunk.arms, chunk.expected, chunk.noise, strict=True):
            arm = bandit.choose(arms)
            bandit.learn(arms[arm], float(noise < expected[arm]))
    np.testing.assert_array_equal(run.state, bandit.state)
    assert run.seconds > 0.0


def test_repeated_rounds_hide_the_growth_of_a_history() -> None:
    policy: Policy = UcbGlm(warm_up=5)
    (few,) = PROBLEM.rounds(8, 1)
    repeated = timed_run(policy, 2, PROBLEM.noise, repeat(few, 20))
    distinct = timed_run(policy, 2, PROBLEM.noise, PROBLEM.rounds(160, 1))
    assert repeated.state.nbytes < distinct.state.nbytes


def test_policy_class_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="got the class"):
        timed_run(SgdTs, 2, PROBLEM.noise, PROBLEM.rounds(5, 1))  # type: ignore[arg-type]
