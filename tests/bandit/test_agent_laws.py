"""check_policy with agents: every broken law is found and named, and valid agents pass."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from glbandits import Agent, InvalidInput, LinUcb, UnknownName, check_policy
from glbandits.bandit.agent_laws import LAWS
from glbandits.bandit.law_check import law_name
from glbandits.bandit.policy_trials import counts_agree
from tests.policies.example_agents import RidgeAgent, ScipyAgent, SklearnAgent, TorchAgent


class Greedy(RidgeAgent):
    """Epsilon-greedy with its probabilities."""

    def probabilities(self, arms: Any) -> Any:
        best = np.argmax(arms @ np.linalg.solve(self.gram, self.sums))
        return self.noise / len(arms) + (1.0 - self.noise) * (np.arange(len(arms)) == best)


class FewerDraws(Greedy):
    """Epsilon-greedy whose epsilon falls with every choice."""

    def choose(self, arms: Any, rng: np.random.Generator) -> int:
        arm = super().choose(arms, rng)
        self.noise *= 0.999
        return arm


class LastArm(RidgeAgent):
    def choose(self, arms: Any, _rng: np.random.Generator) -> int:
        return int(arms.shape[0])


class ThirdArm(RidgeAgent):
    def choose(self, _arms: Any, _rng: np.random.Generator) -> int:
        return 2


class ChangesX(RidgeAgent):
    def learn(self, x: Any, _reward: float) -> None:
        x *= 2


class SixFeatures(RidgeAgent):
    def __init__(self, _dim: int) -> None:
        super().__init__(3)


class FitsOneClass(RidgeAgent):
    """Fails until rewards of both kinds are known, as a LogisticRegression does."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.seen: list[Any] = []

    def learn(self, x: Any, reward: float) -> None:
        self.seen.append((x, reward))
        if len(self.seen) == 31:
            rows, rewards = zip(*self.seen, strict=True)
            LogisticRegression().fit(rows, rewards)


class GlobalNoise(RidgeAgent):
    def choose(self, arms: Any, _rng: np.random.Generator) -> int:
        return int(np.random.randint(len(arms)))  # noqa: NPY002


class SharedArray(RidgeAgent):
    """Each new agent resets what all agents share."""

    theta: ClassVar[Any]

    def __init__(self, dim: int) -> None:
        type(self).theta = np.zeros(dim)

    def choose(self, arms: Any, _rng: np.random.Generator) -> int:
        return int(np.argmax(arms @ self.theta))

    def learn(self, x: Any, reward: float) -> None:
        type(self).theta = self.theta + (reward - 0.5) * x


class SharedList(RidgeAgent):
    seen: ClassVar[list[Any]] = []

    def choose(self, arms: Any, _rng: np.random.Generator) -> int:
        return len(self.seen) % len(arms)

    def learn(self, x: Any, _reward: float) -> None:
        self.seen.append(x)


class CountsInClass(RidgeAgent):
    made: ClassVar[list[int]] = []

    def learn(self, x: Any, reward: float) -> None:
        self.made.append(1)
        super().learn(x, reward)


class WrongProbabilities(Greedy):
    def probabilities(self, arms: Any) -> Any:
        return np.full(len(arms), 1.0 / len(arms))


class PointMass(Greedy):
    def probabilities(self, arms: Any) -> Any:
        best = np.argmax(arms @ np.linalg.solve(self.gram, self.sums))
        return np.arange(len(arms)) == best


class NegativeProbabilities(Greedy):
    def probabilities(self, arms: Any) -> Any:
        return np.full(len(arms), -1.0)


class CountsQuestions(Greedy):
    def probabilities(self, arms: Any) -> Any:
        self.sums -= 1.0
        return super().probabilities(arms)


BROKEN: dict[Callable[..., Agent], tuple[str, ...]] = {
    LastArm: ("- choose and learn work: agent LastArm must choose the index", "returned 5 in round 1 with seed 1"),
    ThirdArm: ("- choose and learn work: agent ThirdArm", "from 0 to 1; choose returned 2"),
    ChangesX: ("- choose and learn work: agent ChangesX failed in round 1", "copy them first"),
    SixFeatures: ("- any number of features is accepted: agent SixFeatures failed in a problem with dim=1, round",),
    FitsOneClass: ("- hard problems are played: agent FitsOneClass failed in a problem with one arm, round 31",),
    GlobalNoise: ("- same seed same choices: two new agents", "Draw random numbers only from the argument `rng`"),
    SharedArray: ("- agents share nothing: an agent chooses arm", "Keep what an agent learns in `self`"),
    SharedList: ("- same seed same choices: two new agents", "never in its class"),
    CountsInClass: ("- result store can identify agents: playing changes the identity of CountsInClass",),
    WrongProbabilities: (r"- probabilities match choices: probabilities returned \[0.2 0.2", "1,000 choices"),
    PointMass: ("- probabilities match choices: ", "leave the method out"),
    NegativeProbabilities: ("- probabilities match choices: agent NegativeProbabilities must give each of the 5 arms",),
    CountsQuestions: ("- asking for probabilities changes nothing: a call of probabilities changes the choice",),
    lambda dim: RidgeAgent(dim): ("- class can be pickled: lambda cannot be pickled", "top level of a module"),
}


@pytest.mark.parametrize("make", BROKEN)
def test_broken_law_of_agents_is_named(make: Callable[..., Agent]) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_policy(make, dim=3)
    for message in ("breaks laws that every agent must obey:\n- ", *BROKEN[make]):
        assert re.search(message, str(caught.value)), caught.value


def test_every_law_of_agents_can_be_broken() -> None:
    named = {re.match("- (.*?): ", messages[0])[1] for messages in BROKEN.values()}  # type: ignore[index]
    assert named == {law_name(law) for law in LAWS}


@pytest.mark.parametrize(
    "make", [RidgeAgent, partial(RidgeAgent, noise=0.3), SklearnAgent, ScipyAgent, TorchAgent, Greedy, FewerDraws]
)
def test_valid_agents_pass(make: Any) -> None:
    if make is TorchAgent:
        pytest.importorskip("torch")
    check_policy(make, dim=3)


class SparseFirst:
    """Counts the features of the arms that it learns."""

    def __init__(self, dim: int) -> None:
        self.sums = np.zeros(dim)

    def choose(self, arms: Any, _rng: np.random.Generator) -> int:
        assert isinstance(arms, csr_array)
        return int(np.argmax(arms @ self.sums))

    def learn(self, x: Any, reward: float) -> None:
        assert x.shape == (1, len(self.sums))
        self.sums[x.indices] += reward * x.data


def test_agents_are_tested_with_sparse_rows() -> None:
    check_policy(SparseFirst, dim=3, sparse=True)
    with pytest.raises(InvalidInput, match="choose and learn work: agent SparseFirst failed"):
        check_policy(SparseFirst, dim=3)


def test_skipped_laws_are_not_tested() -> None:
    with pytest.raises(InvalidInput, match=r"name it: check_policy\(..., skip=\('same seed same choices',\)\)\.$"):
        check_policy(GlobalNoise, dim=3)
    check_policy(GlobalNoise, dim=3, skip=("same seed same choices", "agents share nothing"))
    check_policy(lambda dim: RidgeAgent(dim), dim=3, skip="class can be pickled")


@pytest.mark.parametrize("policy", [RidgeAgent, LinUcb()])
def test_unknown_law_to_skip_is_refused(policy: Any) -> None:
    with pytest.raises(UnknownName, match="unknown law to skip 'same seed'; did you mean 'same seed same"):
        check_policy(policy, dim=3, skip=["same seed"])


def test_what_makes_no_agents_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"Pass RidgeAgent"):
        check_policy(RidgeAgent(3))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="got the class. Add parentheses"):
        check_policy(LinUcb)  # type: ignore[arg-type]


@pytest.mark.parametrize("p", [0.0, 1e-6, 1e-3, 0.1, 0.5, 1.0])
def test_counts_agree_with_their_own_probabilities_only(p: float) -> None:
    rng, stated = np.random.default_rng(1), np.array([p, 1.0 - p])
    for _ in range(200):
        ones = rng.binomial(2000, p)
        assert counts_agree(np.array([ones, 2000.0 - ones]), 2000 * stated, 2000 * stated * (1 - stated))
    for wrong in (p - 0.12, p + 0.12):
        if 0.0 <= wrong <= 1.0:
            counts = 2000 * np.array([wrong, 1.0 - wrong])
            assert not counts_agree(counts, 2000 * stated, 2000 * stated * (1 - stated))


def test_arm_of_probability_zero_must_not_be_chosen() -> None:
    assert not counts_agree(np.array([1.0, 1999.0]), np.array([0.0, 2000.0]), np.zeros(2))
