"""check_policy: every broken law is found and named, and valid policies pass."""
# ruff: noqa: ARG002, ARG004

import random
import re
from typing import Any, ClassVar

import numpy as np
import pytest

from glbandits import InvalidInput, LinUcb, Policy, check_policy
from glbandits.common.arrays import Floats
from glbandits.maths.matrix_products import best_arm
from glbandits.maths.philox import any_index, uniform
from glbandits.maths.vectors import add_scaled, dot, point_mass
from glbandits.policies import LaplaceTs
from glbandits.policies.contract import AnyLink, Grid, Positive, Probability, StateLayout, jittable

LAYOUT = StateLayout()
LEARNED = LAYOUT.count("learned")
theta_of = LAYOUT.vector("theta")
CALLS, GENERATOR = np.zeros(1), np.random.default_rng(1)


class Mine(Policy):
    """The policy of docs/write-a-policy.md."""

    name: ClassVar[str] = "mine"
    layout: ClassVar[StateLayout] = LAYOUT

    link: AnyLink = "logistic"
    step: Positive = 1.0
    epsilon: Probability = 0.1

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Any, link: Any) -> int:
        if uniform(rng) < settings.epsilon:
            return any_index(rng, arms.shape[0])
        return best_arm(arms, theta_of(state, arms.shape[1]))

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Any, link: Any) -> Floats:
        theta = theta_of(state, x.shape[0])
        state[LEARNED] += 1.0
        add_scaled(theta, settings.step / state[LEARNED] ** 0.5 * (reward - link.mean(dot(x, theta))), x)
        return state

    @staticmethod
    def probabilities(state: Floats, settings: Any, arms: Floats, link: Any, out: Floats) -> bool:
        for a in range(arms.shape[0]):
            out[a] = settings.epsilon / arms.shape[0]
        out[best_arm(arms, theta_of(state, arms.shape[1]))] += 1.0 - settings.epsilon
        return True


class NumpyRandom(Mine):
    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Any, link: Any) -> int:
        return int(np.random.rand() * arms.shape[0])  # noqa: NPY002


@jittable
def tie_breaker() -> float:
    return random.random()


class RareRandom(Mine):
    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Any, link: Any) -> Floats:
        if state[LEARNED] > 1e9:
            state[1] += tie_breaker()
        return state


class SharedGenerator(Mine):
    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Any, link: Any) -> int:
        return int(GENERATOR.integers(arms.shape[0]))


class LateNan(Mine):
    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Any, link: Any) -> Floats:
        state[LEARNED] += 1.0
        if state[LEARNED] > 50.0:
            state[1] = np.nan
        return state


class WrongGrid(Mine):
    grid: ClassVar[Grid] = {"stp": (1.0,)}


class OutsideState(Mine):
    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Any, link: Any) -> int:
        CALLS[0] += 1.0
        return int(CALLS[0]) % int(arms.shape[0])


class DividesByNorm(Mine):
    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Any, link: Any) -> Floats:
        add_scaled(theta_of(state, x.shape[0]), reward / np.sum(x * x), x)
        return state


class Overflows(Mine):
    link: AnyLink = "identity"


class WrongProbabilities(Mine):
    @staticmethod
    def probabilities(state: Floats, settings: Any, arms: Floats, link: Any, out: Floats) -> bool:
        point_mass(out, best_arm(arms, theta_of(state, arms.shape[1])))
        return True


class Grows(Mine):
    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Any, link: Any) -> Floats:
        return np.append(state, x)

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        return state.ndim == 1 and bool(np.isfinite(state).all())


class LateArm(Mine):
    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Any, link: Any) -> int:
        return 2 if state[LEARNED] > 30.0 else 0


class Unchecked(Mine):
    def __post_init__(self) -> None:
        """Forget the checks of Policy."""


class AnyState(Mine):
    def is_valid_state(self, state: Floats, dim: int) -> bool:
        return True


class FailsForOneArm(Mine):
    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Any, link: Any) -> int:
        return int(1.0 / (arms.shape[0] - 1.0)) * 0


BROKEN = {
    NumpyRandom: ("same seed same choices", "choose uses numpy.random"),
    RareRandom: ("learn uses random, in tie_breaker in line", "Draw random numbers only from `rng`"),
    SharedGenerator: ("choose uses numpy.random._generator",),
    LateNan: ("the state has nan at index 1 in 'theta' after reward 51", r"features up to|feature separates"),
    WrongGrid: ("grid has 'stp'",),
    OutsideState: ("choose arms", "Keep all that is learned in the state"),
    DividesByNorm: ("the state has nan at index 1 in 'theta'", "features that are all 0", "can be 0"),
    Overflows: ("the state has (nan|inf) at index .* in 'theta'", "project_to_ball"),
    WrongProbabilities: (r"probabilities wrote \[1. 0. 0. 0. 0.\]", "frequencies of 2,000 choices", "return False"),
    Grows: ("the state has 7 numbers after reward 1 .* had 4 at first", "accepts a state with a number too few"),
    LateArm: ("policy 'mine' chose arm 2",),
    Unchecked: ("the setting link=nan is accepted", r"super\(\).__post_init__"),
    AnyState: ("accepts a state with two axes",),
    FailsForOneArm: ("FailsForOneArm failed with ZeroDivisionError", "in line"),
}

plain = pytest.mark.usefixtures("plain_python")


@plain
@pytest.mark.parametrize("kind", BROKEN)
def test_broken_law_is_named(kind: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_policy(kind(), dim=3)
    for message in BROKEN[kind]:
        assert re.search(message, str(caught.value)), caught.value


@plain
@pytest.mark.parametrize("policy", [Mine(), LinUcb(), Mine(link="probit", epsilon=0.0)])
def test_valid_policy_passes(policy: Policy) -> None:
    check_policy(policy, dim=3)


@plain
def test_skipped_laws_are_not_tested() -> None:
    with pytest.raises(InvalidInput, match=r"To accept a broken law, name it: .*skip=\('probabilities match choices',"):
        check_policy(WrongProbabilities(), dim=3)
    check_policy(WrongProbabilities(), dim=3, skip=("probabilities match choices",))


@pytest.mark.safety
@pytest.mark.usefixtures("compiled_now")
def test_policy_may_skip_the_last_bit() -> None:
    check_policy(SumsInNumpy(), skip="machine code equals plain python")


@plain
def test_sparse_form_is_tested() -> None:
    check_policy(LaplaceTs(), dim=3, sparse=True)
    with pytest.raises(InvalidInput, match="has no sparse form"):
        check_policy(LinUcb(), dim=3, sparse=True)


@plain
def test_local_class_cannot_be_pickled() -> None:
    class Local(Mine):
        pass

    with pytest.raises(InvalidInput, match="Define the class at the top level"):
        check_policy(Local(), dim=3)


@pytest.mark.safety
@pytest.mark.usefixtures("compiled_now")
def test_machine_code_that_adds_in_another_order_is_found() -> None:
    with pytest.raises(InvalidInput, match="machine code and plain Python differ in round"):
        check_policy(SumsInNumpy())


class SumsInNumpy(Mine):
    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Any, link: Any) -> Floats:
        theta = theta_of(state, x.shape[0])
        add_scaled(theta, 0.1 * (reward - link.mean(np.sum(x * theta))), x)
        return state
