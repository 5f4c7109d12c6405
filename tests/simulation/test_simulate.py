import threading

import numpy as np
import pytest

from glbandits import InvalidInput, SgdTs, Uniform
from glbandits.environments import Synthetic, gaussian
from glbandits.simulation import simulate


def test_regret_is_what_the_choices_cost() -> None:
    problem = Synthetic(dim=3, arms=7, fewest_arms=4)
    result = simulate(Uniform(), problem, 80, [5])
    assert result.choices is not None
    (piece,) = problem.rounds(80, 5)
    cost = piece.best() - piece.expected[np.arange(80), result.choices[0]]
    np.testing.assert_allclose(result.regret[0], np.cumsum(cost), rtol=1e-12)
    assert (cost >= 0).all()


def test_uniform_play_has_the_regret_that_arithmetic_gives_it() -> None:
    problem = Synthetic(dim=6, arms=100)
    result = simulate(Uniform(), problem, 1000, 60)
    expected = [
        sum(float((p.best() - p.expected.mean(axis=1)).sum()) for p in problem.rounds(1000, seed)) for seed in range(60)
    ]
    # The difference has a standard deviation of 0.14 sqrt(1000) = 4.4 a run, 0.57 for the mean of 60.
    assert result.final_regret.mean() == pytest.approx(np.mean(expected), abs=5 * 0.57)


def test_seeds_do_not_depend_on_each_other_or_on_the_number_of_jobs() -> None:
    problem = Synthetic(dim=3, arms=5)
    together = simulate(SgdTs(block_length=10), problem, 200, 4, jobs=2)
    alone = simulate(SgdTs(block_length=10), problem, 200, [2], jobs=1)
    assert together.choices is not None
    assert alone.choices is not None
    np.testing.assert_array_equal(together.choices[2], alone.choices[0])


def test_policies_face_the_same_rounds() -> None:
    problem = Synthetic(dim=2, arms=1)  # with one arm, the same rounds mean the same rewards and no regret
    one, other = (simulate(policy, problem, 50, 3) for policy in (Uniform(), SgdTs(block_length=5)))
    np.testing.assert_array_equal(one.regret, other.regret)


def test_regret_is_recorded_at_evenly_spaced_rounds() -> None:
    problem = Synthetic(dim=2, arms=3)
    every = simulate(Uniform(), problem, 1000, 2)
    some = simulate(Uniform(), problem, 1000, 2, points=11, keep_choices=False)
    assert len(every.rounds) == 1000
    assert some.choices is None
    np.testing.assert_array_equal(some.rounds, [1, 101, 201, 301, 401, 500, 600, 700, 800, 900, 1000])
    np.testing.assert_array_equal(some.regret, every.regret[:, some.rounds - 1])


def test_mean_and_standard_error() -> None:
    result = simulate(Uniform(), Synthetic(dim=2, arms=3), 40, 5)
    np.testing.assert_allclose(result.mean, result.regret.mean(axis=0))
    np.testing.assert_allclose(result.standard_error, result.regret.std(axis=0, ddof=1) / np.sqrt(5))
    assert np.isnan(simulate(Uniform(), Synthetic(dim=2, arms=3), 40, 1).standard_error).all()
    assert (result.seconds > 0).all()


def test_progress_counts_every_round() -> None:
    lock, done = threading.Lock(), [0]

    def report(rounds: int) -> None:
        with lock:
            done[0] += rounds

    simulate(Uniform(), Synthetic(dim=50, arms=100), 1000, 3, progress=report)
    assert done[0] == 3000


def test_a_policy_that_cannot_take_the_rewards_is_refused() -> None:
    problem = Synthetic(link="identity", rewards=gaussian(0.1))
    with pytest.raises(InvalidInput, match="sgd-ts with the logistic link takes rewards from 0 to 1; gaussian rewards"):
        simulate(SgdTs(), problem, 10, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 0}, "horizon must be a whole number of at least 1; got 0"),
        ({"seeds": 0}, "seeds must be at least one seed"),
        ({"seeds": []}, "seeds must be at least one seed"),
        ({"seeds": [1, -4]}, "a seed must be a whole number of at least 0; got -4"),
        ({"points": 0}, "points must be a whole number of at least 1"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    defaults: dict[str, object] = {"horizon": 10, "seeds": 1}
    with pytest.raises(InvalidInput, match=message):
        simulate(Uniform(), Synthetic(), **(defaults | arguments))  # type: ignore[arg-type]
