"""Agents on logs: learning curves, tuning, training and evaluation."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from glbandits import Agent, InvalidInput, Uniform
from glbandits.evaluation import FixedArms, LoggedData, evaluate, play_log, train, tune
from glbandits.evaluation.comparison_result import ComparisonSettings, GateSettings
from glbandits.evaluation.learning.players import THINNING_STREAM
from glbandits.evaluation.policy_comparison import compare_policies
from glbandits.maths.philox import generator, uniform
from glbandits.policies.agents import AGENT_STREAM
from tests.cli.in_process import glb
from tests.evaluation.learning_problem import write_log
from tests.evaluation.small_comparison import VALUES, small_log
from tests.evaluation.sparse_data import dense_and_sparse
from tests.policies.example_agents import RidgeAgent, ScipyAgent, SklearnAgent, TorchAgent

pytestmark = pytest.mark.usefixtures("plain_python")
few = pytest.mark.filterwarnings("ignore:the effective sample size of")
AGENTS = (RidgeAgent, ScipyAgent, SklearnAgent, TorchAgent)


class Greedy(RidgeAgent):
    """Always chooses the best arm under theta, and says so."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, noise=0.0)

    def probabilities(self, arms: Any) -> Any:
        best = self.choose(arms, np.random.default_rng(0))
        return np.arange(arms.shape[0]) == best


class WithoutProbabilities(RidgeAgent):
    def __init__(self, dim: int) -> None:
        super().__init__(dim, noise=0.0)


@few
@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("learn", ["matched", "all"])
def test_play_log_equals_a_loop_by_hand(learn: Any, uneven: bool) -> None:
    log = write_log(300, seed=3, uneven=uneven)
    assert log.propensities is not None
    agent, thinning = RidgeAgent(log.dim), generator(7, THINNING_STREAM)
    rng = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(AGENT_STREAM, 0)))
    least, weights = float(log.propensities.min()), np.zeros(300)
    for row, (features, count) in enumerate(zip(log.features(), log.arms.counts, strict=True)):
        arm, propensity = int(log.chosen[row]), float(log.propensities[row])
        agrees = agent.choose(features[:count], rng) == arm
        if learn == "matched":
            agrees = agrees and (propensity == least or uniform(thinning) < least / propensity)
        if agrees or learn == "all":
            agent.learn(features[arm], float(log.rewards[row]))
        weights[row] = agrees / (least if learn == "matched" else propensity)
    curve = play_log(RidgeAgent, log, seed=7, learn=learn)
    assert curve.policy.name == "RidgeAgent"
    assert curve.kept == np.count_nonzero(weights)
    assert curve.value == pytest.approx(np.average(log.rewards, weights=weights), rel=1e-12)


@few
def test_exact_uses_the_probabilities_of_the_agent() -> None:
    log = write_log(300, seed=3)
    exact = play_log(SklearnAgent, log, seed=7, learn="all", exact=True)
    drawn = play_log(SklearnAgent, log, seed=7, learn="all")
    assert exact.effective_sample_size > drawn.effective_sample_size
    assert exact.matched == len(log)


@few
@pytest.mark.parametrize("make", AGENTS)
def test_agent_with_any_library_is_evaluated(make: Callable[[int], Agent]) -> None:
    if make is TorchAgent:
        pytest.importorskip("torch")
    log = small_log()[:600]
    settings = ComparisonSettings(estimators=("dr",))
    compared = compare_policies(log, {"mine": make, "uniform": "uniform"}, settings)
    mine, uniform_policy = compared.policies
    assert mine.left_out_rows == 300
    assert mine.learning_curve is not None
    assert mine.evaluation["dr"].value > VALUES.mean()
    assert mine.evaluation["dr"].value > uniform_policy.evaluation["dr"].value


def test_comparison_equals_training_and_evaluation_by_hand() -> None:
    log = small_log()
    agent = train(log[:512], SklearnAgent)
    by_hand = evaluate(log[512:], agent, ("snips", "dr"))
    compared = compare_policies(log, {"mine": SklearnAgent}, ComparisonSettings()).policies[0]
    assert compared.evaluation["dr"].value == by_hand["dr"].value
    assert compared.evaluation["snips"].normal == by_hand["snips"].normal


def test_agent_without_probabilities_gets_one_decision_for_each_row() -> None:
    log = small_log()
    with_them, without = (
        evaluate(log[512:], train(log[:512], make), ("snips",)) for make in (Greedy, WithoutProbabilities)
    )
    assert with_them["snips"].value == without["snips"].value
    assert isinstance(train(log, Greedy), Greedy)


def test_gate_trains_agents_on_earlier_rows() -> None:
    log = small_log()
    settings = ComparisonSettings(gate=GateSettings())
    candidates: dict[str, Any] = {"mine": Greedy, "made": lambda dim: Greedy(dim)}
    compared = compare_policies(log, candidates, settings)
    assert compared.promotion is not None
    assert compared.promotion.gains["mine"] == compared.promotion.gains["made"]
    assert compared.policies[0].evaluation["dr"].value == compared.policies[1].evaluation["dr"].value


def test_processes_give_the_comparison_of_one_process() -> None:
    candidates: dict[str, Any] = {"mine": SklearnAgent, "uniform": Uniform(link="logistic")}
    log = small_log()
    alone, spread = (compare_policies(log, candidates, ComparisonSettings(), jobs=jobs) for jobs in (1, 2))
    assert [each.evaluation["dr"].value for each in alone.policies] == [
        each.evaluation["dr"].value for each in spread.policies
    ]


@pytest.mark.parametrize("jobs", [1, 2])
def test_tune_varies_the_settings_of_an_agent(jobs: int) -> None:
    log = small_log()
    tuned = tune(RidgeAgent, log, grid={"noise": (0.0, 0.1, 1.0)}, seeds=1, jobs=jobs)
    assert [played.policy.get_params()["noise"] for played in tuned.candidates] == [0.1, 0.0, 1.0]
    assert tuned.best.get_params()["noise"] < 1.0
    assert repr(tuned.best).startswith("RidgeAgent")


def test_tune_chooses_among_agents_and_policies() -> None:
    tuned = tune([Uniform(), RidgeAgent, Greedy], small_log(), seeds=1)
    assert [played.policy.name for played in tuned.candidates] == ["uniform", "RidgeAgent", "Greedy"]
    assert tuned.best.name != "uniform"


def test_rows_of_sparse_logs_are_csr_arrays() -> None:
    class Dense(RidgeAgent):
        def choose(self, arms: Any, rng: np.random.Generator) -> int:
            return super().choose(arms.toarray() if isinstance(arms, csr_array) else arms, rng)

        def learn(self, x: Any, reward: float) -> None:
            super().learn(x.toarray()[0] if isinstance(x, csr_array) else x, reward)

    class Sparse(Dense):
        def choose(self, arms: Any, rng: np.random.Generator) -> int:
            assert isinstance(arms, csr_array)
            return super().choose(arms, rng)

    dense, sparse = dense_and_sparse(400)
    curves = [play_log(make, log, seed=1) for make, log in ((Dense, dense), (Sparse, sparse))]
    assert curves[0].value == curves[1].value
    trained = [evaluate(log, train(log, Sparse if log is sparse else Dense), ("snips",)) for log in (dense, sparse)]
    assert trained[0]["snips"].value == trained[1]["snips"].value


class Bad(RidgeAgent):
    given: Any = None
    rows = 0

    def probabilities(self, arms: Any) -> Any:
        self.rows += 1
        return self.given if self.rows > 16 else np.full(len(arms), 1 / len(arms))


@pytest.mark.parametrize(
    "given",
    [None, 0.5, [1.0], [0.5, 0.4, 0.2], [-0.5, 1.5], [np.nan, 1.0], [0.5, 0.6], [[0.5, 0.5]], "ab", [None, 1.0]],
)
@pytest.mark.parametrize("plays_log", [True, False])
def test_invalid_probabilities_end_the_run(given: Any, plays_log: bool) -> None:
    class Mine(Bad):
        pass

    Mine.given = given
    message = (
        r"agent Mine must give each of the 2 arms a probability .*; probabilities returned .* in row 16 with seed 0"
    )
    log = two_arm_log()
    play = partial(play_log, Mine, log, 0, learn="all", exact=True) if plays_log else partial(evaluate, log, Mine(2))
    with pytest.raises(InvalidInput, match=message):
        play()


def two_arm_log() -> LoggedData:
    rng = np.random.default_rng(1)
    chosen = rng.integers(2, size=100)
    return LoggedData(
        chosen=chosen,
        rewards=chosen.astype(np.float64),
        propensities=np.full(100, 0.5),
        arms=FixedArms(np.eye(2), rows=100),
    )


class FailsInLearn(RidgeAgent):
    def learn(self, x: Any, reward: float) -> None:
        raise OverflowError(f"{x.shape} {reward}")


class Chooses(RidgeAgent):
    def choose(self, arms: Any, rng: np.random.Generator) -> Any:
        return [arms.shape[0], rng]


CLASS: Any = RidgeAgent
OBJECT: Any = RidgeAgent(2)
FUNCTION: Any = lambda dim: RidgeAgent(dim)  # noqa: E731
FAILING: Any = lambda _block: 1 / 0  # noqa: E731


@pytest.mark.parametrize(
    ("play", "message"),
    [
(lambda log: play_log(FailsInLearn, log, 3, learn="all"), r"FailsInLearn failed in row 0 with seed 3: learn"),
(lambda log: play_log(Chooses, log, 3), r"agent Chooses must choose .* from 0 to 1; choose returned \[2, Gen"),
(lambda log: tune(RidgeAgent, log), "RidgeAgent has no grid of settings to choose among. Give grid"),
(lambda log: evaluate(log, FUNCTION), r"must be an agent that has learned; got lambda"),
(lambda log: play_log(OBJECT, log, 1), "an agent must be given as the class or function that makes it"),
],
)  # fmt: skip
def test_errors_name_the_agent_and_the_row(play: Callable[[LoggedData], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        play(two_arm_log())


class LearnsInClass(RidgeAgent):
    seen: ClassVar[list[float]] = []

    def learn(self, _x: Any, reward: float) -> None:
        self.seen.append(reward)


@few
@pytest.mark.parametrize(
    "play",
    [
        lambda log: play_log(LearnsInClass, log, 1),
        lambda log: train(log, LearnsInClass),
        lambda log: tune(LearnsInClass, log, grid={"noise": (0.1, 0.2)}),
    ],
)
def test_agents_that_learn_in_their_class_get_a_warning(play: Callable[[LoggedData], Any]) -> None:
    with pytest.warns(UserWarning, match="LearnsInClass changed its class"):
        play(two_arm_log())


def test_log_with_values_and_costs_is_refused() -> None:
    log = two_arm_log()
    with_values = LoggedData(
        chosen=log.chosen, rewards=log.rewards, propensities=log.propensities, arms=log.arms, values=np.ones((100, 2))
    )
    for play in (lambda: play_log(RidgeAgent, with_values, 1), lambda: evaluate(with_values, RidgeAgent(2))):
        with pytest.raises(InvalidInput, match="RidgeAgent .*chooses without values and costs, but the log has them"):
            play()


SOURCE = """
import numpy as np

class Mine:
    def __init__(self, dim, noise=0.1):
        self.gram, self.sums, self.noise = np.eye(dim), np.zeros(dim), noise

    def choose(self, arms, rng):
        best = np.argmax(arms @ np.linalg.solve(self.gram, self.sums))
        return best if rng.random() > self.noise else rng.integers(len(arms))

    def learn(self, x, reward):
        self.gram += np.outer(x, x)
        self.sums += reward * x
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "mine.py").write_text(SOURCE)
    rng = np.random.default_rng(1)
    chosen = rng.integers(2, size=1200)
    rewards = (rng.random(1200) < np.where(chosen == 1, 0.6, 0.4)).astype(int)
    columns = {"item": np.array(["old", "new"])[chosen], "reward": rewards, "propensity": 0.5}
    pl.DataFrame(columns).write_parquet(tmp_path / "log.parquet")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("mine", None)


def test_evaluate_command_takes_agents(folder: Path) -> None:
    words = (
        "--arm",
        "item",
        "--link",
        "logistic",
        "--policy",
        "uniform",
        "--policy",
        "mine:Mine:noise=0.05",
        "--jobs",
        "1",
    )
    run = glb("evaluate", "log.parquet", *words, "--out", "out", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "mine:Mine:noise=0.05" in run.stdout


def test_tune_command_takes_agents(folder: Path) -> None:
    words = ("--arm", "item", "--link", "logistic", "--policy", "mine:Mine", "--grid", "noise=0.0,1.0")
    run = glb("tune", "log.parquet", *words, "--seeds", "1", "--out", "found", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "noise=0.1, default" in run.stdout
    assert "Next: glb evaluate log.parquet --arm item" in run.stdout  # an agent has no model file


def test_train_command_refuses_agents(folder: Path) -> None:
    run = glb("train", "log.parquet", "--arm", "item", "--policy", "mine:Mine", folder=folder)
    assert run.returncode == 2
    assert "an agent has no model file; got mine:Mine" in run.stderr
