import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_array

from glbandits import Agent, InvalidInput, LinUcb, Uniform, UnknownName
from glbandits.lab import Prices, SparseHashed, Synthetic, compare, results_table, simulate
from glbandits.lab.experiments.simulated_comparison import comparison_summary
from tests.policies.example_agents import RidgeAgent, ScipyAgent, SklearnAgent, TorchAgent

PROBLEM = Synthetic(dim=3, arms=5)
run = partial(simulate, environment=PROBLEM, horizon=60, seeds=2, jobs=1)


WRONG: Any = {"nois": 0.1}


class Fixed:
    """Always the first arm."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def choose(self, _arms: Any, _rng: np.random.Generator) -> Any:
        return 0

    def learn(self, x: Any, reward: float) -> None:
        pass


@pytest.mark.parametrize("make", [RidgeAgent, SklearnAgent, ScipyAgent, TorchAgent])
def test_agent_with_any_library_learns(make: Callable[[int], Agent]) -> None:
    if make is TorchAgent:
        pytest.importorskip("torch")
    problem = Synthetic(dim=3, arms=5, theta_norm=8.0)
    played = simulate(make, problem, 150, 3, jobs=1)
    assert played.final_regret.mean() < 0.75 * simulate(Uniform(), problem, 150, 3, jobs=1).final_regret.mean()
    again = simulate(make, problem, 50, 1, jobs=1)
    np.testing.assert_array_equal(played.regret[0, :50], again.regret[0])


@pytest.mark.filterwarnings("ignore:.* changed its class")
def test_agent_plays_the_rounds_and_the_noise_of_policies() -> None:
    class Recorder(Fixed):
        seen: ClassVar[list[Any]] = []

        def choose(self, arms: Any, _rng: np.random.Generator) -> int:
            self.seen.append(arms)
            return 2

        def learn(self, x: Any, reward: float) -> None:
            self.seen.append((x, reward))

    played = simulate(Recorder, PROBLEM, 50, [7], jobs=1)
    (chunk,) = PROBLEM.rounds(50, 7)
    np.testing.assert_array_equal(Recorder.seen[::2], chunk.arms)
    rewards = [PROBLEM.noise.reward(chunk.expected[t, 2], chunk.noise[t]) for t in range(50)]
    assert [reward for _, reward in Recorder.seen[1::2]] == rewards
    np.testing.assert_array_equal([x for x, _ in Recorder.seen[1::2]], chunk.arms[:, 2])
    np.testing.assert_allclose(played.regret[0], np.cumsum(chunk.best() - chunk.payoffs[:, 2]))
    np.testing.assert_array_equal(played.choices, np.full((1, 50), 2))


def test_processes_give_the_result_of_one_process() -> None:
    alone, spread = (simulate(RidgeAgent, PROBLEM, 60, 4, jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(alone.regret, spread.regret)
    np.testing.assert_array_equal(alone.choices, spread.choices)


def test_seeds_run_in_processes_and_not_in_threads(tmp_path: Path) -> None:
    class Writes(Fixed):
        def __init__(self, _dim: int) -> None:
            (tmp_path / str(os.getpid())).touch()

    simulate(Writes, PROBLEM, 5, 4, jobs=2)
    processes = {path.name for path in tmp_path.iterdir()}
    assert 1 <= len(processes) <= 2
    assert str(os.getpid()) not in processes


def test_progress_counts_all_rounds() -> None:
    for jobs in (1, 2):
        calls: list[int] = []
        simulate(Fixed, PROBLEM, 250, 2, jobs=jobs, progress=calls.append)
        assert sum(calls) == 500
        assert max(calls) == (100 if jobs == 1 else 250)


def test_rows_of_a_sparse_problem_are_csr_arrays() -> None:
    class Sparse(Fixed):
        def choose(self, arms: Any, _rng: np.random.Generator) -> int:
            assert isinstance(arms, csr_array)
            assert arms.shape[1] == self.dim
            return 1

        def learn(self, x: Any, _reward: float) -> None:
            assert isinstance(x, csr_array)
            assert x.shape == (1, self.dim)

    problem = SparseHashed(dim=2**13)
    played = simulate(Sparse, problem, 30, 2, jobs=1)
    (chunk,) = problem.rounds(30, 0)
    np.testing.assert_allclose(played.regret[0], np.cumsum(chunk.best() - chunk.payoffs[:, 1]))


def test_agents_are_compared_with_policies() -> None:
    makers: dict[str, Any] = {
        "ridge": partial(RidgeAgent, noise=0.2),
        "mine": lambda dim: Fixed(dim),
        "lin-ucb": LinUcb(),
    }
    comparison = compare(makers, PROBLEM, 60, 3, jobs=1)
    assert list(comparison) == ["ridge", "mine", "lin-ucb"]
    assert set(results_table(comparison).collect()["policy"]) == set(makers)
    played = comparison_summary(comparison)["policies"]
    assert (played["ridge"]["settings"], played["mine"]["settings"]) == ({"noise": 0.2}, {})
    assert "RidgeAgent(noise=0.2)" in comparison._repr_html_()
    comparison.plot()


def test_name_is_that_of_the_class_or_its_attribute() -> None:
    def my_agent(dim: int) -> Fixed:
        return Fixed(dim)

    makers: list[Any] = [RidgeAgent, ScipyAgent, my_agent, partial(RidgeAgent, noise=0.0), lambda dim: Fixed(dim)]
    names = ["RidgeAgent", "map-scipy", "my_agent", "RidgeAgent", "lambda"]
    assert [run(make).policy.name for make in makers] == names
    assert "policy RidgeAgent" in repr(run(RidgeAgent))


class NoText:
    def __repr__(self) -> str:
        raise ValueError

    __index__ = __repr__


@pytest.mark.parametrize("returned", [5, -1, 1.0, np.float64(2), None, True, "0", [0], np.eye(2), NoText()])
def test_invalid_choice_ends_the_run(returned: Any) -> None:
    class Bad(Fixed):
        rounds = 0

        def choose(self, _arms: Any, _rng: np.random.Generator) -> Any:
            self.rounds += 1
            return returned if self.rounds == 17 else 0

    message = r"agent Bad must choose .* from 0 to 4; choose returned .* in round 17 with seed 0$"
    with pytest.raises(InvalidInput, match=message):
        run(Bad)


class ChangesArms(Fixed):
    def choose(self, arms: Any, _rng: np.random.Generator) -> Any:
        arms -= arms.mean()
        return 0


class ChangesX(Fixed):
    def learn(self, x: Any, _reward: float) -> None:
        x *= 2


class Raises(Fixed):
    def learn(self, _x: Any, _reward: float) -> None:
        raise KeyError("x")


class Exits(Fixed):
    def learn(self, _x: Any, _reward: float) -> None:
        sys.exit(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (ChangesArms, r"agent ChangesArms failed in round 1 with .*: choose raised ValueError: .* copy them first$"),
        (ChangesX, r"agent ChangesX failed in round 1 with .*: learn raised ValueError: .* must not change arms and x"),
        (
            Raises,
            r"agent Raises failed in round 1 with .*: learn raised KeyError: 'x', in line \d+ of .*.py",
        ),
        (Exits, r"agent Exits failed in round 1 with seed 0: learn raised SystemExit: 3, in line"),
        (lambda _dim: sys.exit("no licence"), "agent lambda could not be made: SystemExit: no licence, in line"),
    ],
)
def test_failing_agent_ends_the_run(make: Callable[[int], Agent], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        run(make)
    assert "\n" not in str(caught.value)


def test_agent_that_unlocks_arms_changes_only_its_copy() -> None:
    class Unlocks(Fixed):
        def choose(self, arms: Any, _rng: np.random.Generator) -> Any:
            arms.flags.writeable = True
            arms[:] = 1e9
            return 0

        def learn(self, x: Any, _reward: float) -> None:
            assert np.abs(x).max() < 1.0

    problem = Synthetic(dim=3, arms=5, fixed_arms=True)
    played = simulate(Unlocks, problem, 20, 2, jobs=1)
    np.testing.assert_array_equal(played.regret, simulate(Fixed, problem, 20, 2, jobs=1).regret)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
(Fixed(3), InvalidInput, r"class or function that makes it.*; got an object of Fixed. Pass Fixed"),
(lambda: Fixed(3), InvalidInput, r"must make an agent from the number of .*, as in lambda\(6\); it takes"),
(lambda _dim: 3, InvalidInput, r"lambda\(3\) must return an agent, an object.*; got 3"),
(lambda _dim: 1 / 0, InvalidInput, r"agent lambda could not be made: ZeroDivisionError"),
(partial(Fixed, **WRONG), UnknownName, r"unknown setting of Fixed 'nois'"),
(Uniform, InvalidInput, r"policy must be an instance such as Uniform\(\); got the class"),
],
)  # fmt: skip
def test_what_makes_no_agents_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(make)


def test_one_object_for_several_seeds_is_refused() -> None:
    shared = Fixed(3)
    with pytest.raises(InvalidInput, match="must make a new agent for each run; it returned .* again"):
        run(lambda _dim: shared)


class LearnsInClass(Fixed):
    learned: ClassVar[list[float]] = []

    def learn(self, _x: Any, reward: float) -> None:
        self.learned.append(reward)


def learns_in_default(dim: int, learned: dict[int, Agent] = {}) -> Agent:  # noqa: B006
    learned[len(learned)] = Fixed(dim)
    return Fixed(dim)


LEARNED: list[int] = []


def learns_in_global(dim: int) -> Agent:
    LEARNED.append(dim)
    return Fixed(dim)


@pytest.mark.parametrize("make", [LearnsInClass, learns_in_default, partial(learns_in_default), learns_in_global])
@pytest.mark.parametrize("jobs", [1, 2])
def test_agents_that_share_what_they_learn_get_a_warning(make: Callable[[int], Agent], jobs: int) -> None:
    with pytest.warns(UserWarning, match="changed its class, its settings or a global .* Keep what an agent learns"):
        simulate(make, PROBLEM, 5, 2, jobs=jobs)


def test_problem_with_values_and_costs_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Fixed is an agent, which chooses without values and costs"):
        simulate(Fixed, Prices(), 20, 1)
