import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from joblib import parallel_config

from glbandits import Bandit, InvalidInput, Policy, SgdTs, Uniform
from glbandits.lab import NOISES, Noise, Synthetic, gaussian, play_together, recorded_rounds, simulate
from glbandits.lab.environments.rounds import Rounds
from tests.maths.link_support import cauchit_link


def test_regret_follows_from_the_choices() -> None:
    problem = Synthetic(dim=3, arms=7, fewest_arms=4)
    result = simulate(Uniform(), problem, 80, [5])
    assert result.choices is not None
    (chunk,) = problem.rounds(80, 5)
    cost = chunk.best() - chunk.expected[np.arange(80), result.choices[0]]
    np.testing.assert_allclose(result.regret[0], np.cumsum(cost), rtol=1e-12)
    assert (cost >= 0).all()


def test_final_state_equals_that_of_a_bandit() -> None:
    policy, problem = SgdTs(block_length=10), Synthetic(dim=2, arms=4)
    (run,) = play_together([policy], problem, 55, 3, recorded_rounds(55, 1), keep_state=True)
    bandit = Bandit(policy, dim=2, seed=3)
    for chunk in problem.rounds(55, 3):
        for arms, expected, noise in zip(chunk.arms, chunk.expected, chunk.noise, strict=True):
            arm = bandit.choose(arms)
            bandit.learn(arms[arm], float(noise < expected[arm]))
    np.testing.assert_array_equal(run.state, bandit.state)
    assert run.seconds > 0.0


def test_regret_of_random_play_has_its_expected_value() -> None:
    problem = Synthetic(dim=6, arms=100)
    result = simulate(Uniform(), problem, 1000, 60)
    expected = [
        sum(float((p.best() - p.expected.mean(axis=1)).sum()) for p in problem.rounds(1000, seed)) for seed in range(60)
    ]
    # Expected rewards spread by 0.034 in a round (||theta*|| is 0.58 on average, the slope 1/4), so the difference by
    # 0.034 sqrt(1000) = 1.1 a run and 0.14 for the mean of 60. Five of these: once in a million seed sets.
    assert result.final_regret.mean() == pytest.approx(np.mean(expected), abs=5 * 0.14)


def test_runs_are_independent_of_other_seeds_and_jobs() -> None:
    problem = Synthetic(dim=3, arms=5)
    together = simulate(SgdTs(block_length=10), problem, 200, 4, jobs=2)
    alone = simulate(SgdTs(block_length=10), problem, 200, [2], jobs=1)
    assert together.choices is not None
    assert alone.choices is not None
    np.testing.assert_array_equal(together.choices[2], alone.choices[0])


def test_policies_play_the_same_rounds() -> None:
    problem = Given([some_rounds(10)])
    for policy in (Uniform(), SgdTs(block_length=5)):
        simulate(policy, problem, 10, [3, 8], jobs=1)
    assert problem.calls == 2 * [(10, 3), (10, 3), (10, 3), (10, 8)]  # the first two check that rounds repeat


def test_processes_and_threads_give_the_same_result() -> None:
    policy, problem = SgdTs(block_length=10), Synthetic(dim=3, arms=5)
    threads = simulate(policy, problem, 100, 2)
    with parallel_config(backend="loky"):
        processes = simulate(policy, problem, 100, 2, jobs=2)
        own = simulate(Uniform(link=cauchit_link()), problem, 100, 2, jobs=2)
    np.testing.assert_array_equal(threads.regret, processes.regret)
    np.testing.assert_array_equal(own.regret, simulate(Uniform(), problem, 100, 2).regret)


def test_regret_is_recorded_at_evenly_spaced_rounds() -> None:
    problem = Synthetic(dim=2, arms=3)
    every = simulate(Uniform(), problem, 1000, 2)
    some = simulate(Uniform(), problem, 1000, 2, points=11, keep_choices=False)
    assert len(every.rounds) == 1000
    assert some.choices is None
    np.testing.assert_array_equal(some.rounds, [1, 101, 201, 301, 401, 500, 600, 700, 800, 900, 1000])
    np.testing.assert_array_equal(some.regret, every.regret[:, some.rounds - 1])


def test_mean_and_standard_error_over_seeds() -> None:
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


def test_rewards_outside_the_range_of_the_link_are_an_error() -> None:
    problem = Synthetic(link="identity", rewards=gaussian(0.1))
    with pytest.raises(InvalidInput, match="sgd-ts with the logistic link accepts rewards"):
        simulate(SgdTs(), problem, 10, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 0}, "horizon must be a whole number of at least 1; got 0"),
        ({"seeds": []}, "seeds must be at least one seed"),
        ({"seeds": True}, "seeds must be a whole number"),
        ({"policy": 7}, "policy must be an instance"),
        ({"environment": None}, "environment must be an instance of an environment, such as Synthetic"),
    ],
)
def test_invalid_arguments_are_errors(arguments: dict[str, object], message: str) -> None:
    defaults: dict[str, object] = {"policy": Uniform(), "environment": Synthetic(), "horizon": 10, "seeds": 1}
    with pytest.raises(InvalidInput, match=message):
        simulate(**(defaults | arguments))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Given:
    """An environment that yields the given blocks of rounds, and records the calls."""

    blocks: list[Rounds]
    dim: int = 2
    noise: Noise = NOISES["bernoulli"]
    calls: list[tuple[int, int]] = field(default_factory=list)

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        self.calls.append((horizon, seed))
        yield from self.blocks


def some_rounds(length: int, dim: int = 2) -> Rounds:
    rng = np.random.default_rng(length)
    means = rng.random((length, 3))
    return Rounds(rng.normal(size=(length, 3, dim)), np.full(length, 3), means, rng.random(length), means)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([some_rounds(5)], "rounds must yield 10 rounds; got 5"),
        ([some_rounds(5), some_rounds(6)], "got 6 rounds of 2 features after 5 rounds"),
        ([some_rounds(5), some_rounds(0), some_rounds(5)], "got 0 rounds of 2 features after 5 rounds"),
        ([some_rounds(10, dim=3)], "rounds of 2 features.*got 10 rounds of 3 features"),
    ],
    ids=["too few", "too many", "an empty block", "another dimension"],
)
def test_wrong_rounds_of_an_environment_are_an_error(blocks: list[Rounds], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulate(Uniform(), Given(blocks), 10, 1)


def test_policies_on_shared_rounds_do_not_interact() -> None:
    policies: list[Policy] = [SgdTs(block_length=20), Uniform(), SgdTs(block_length=30)]
    problem = Synthetic(dim=3, arms=5)
    together = play_together(policies, problem, 200, 4, recorded_rounds(200, 50), keep_choices=True)
    for policy, run in zip(policies, together, strict=True):
        alone = simulate(policy, problem, 200, [4], points=50)
        assert alone.choices is not None
        np.testing.assert_array_equal(run.choices, alone.choices[0])
        np.testing.assert_array_equal(run.regret, alone.regret[0])


def test_regret_uses_payoffs_and_rewards_use_expectations() -> None:
    class Labels:
        dim, noise = 1, NOISES["bernoulli"]

        def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:  # noqa: ARG002
            labels = np.resize([[1.0, 0.0]], (horizon, 2))  # the first arm always pays; its payoff for regret is low
            payoffs = np.resize([[0.2, 0.7]], (horizon, 2))
            yield Rounds(
                np.resize([[[1.0], [-1.0]]], (horizon, 2, 1)),
                np.full(horizon, 2),
                labels,
                np.full(horizon, 0.5),
                payoffs,
            )

    result = simulate(SgdTs(block_length=10), Labels(), 100, [1])
    assert result.choices is not None
    assert (result.choices[0, 10:] == 0).all()  # it learned from the labels
    assert result.final_regret[0] == pytest.approx(0.5 * (result.choices[0] == 0).sum())
