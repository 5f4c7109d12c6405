"""Mistakes in a user's policy: each gets a clear error message, and none crashes the process."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import SGDRegressor

from glbandits import Bandit, GlbanditsError, Uniform
from glbandits.common.arrays import Floats, Generator
from glbandits.lab import Synthetic, simulate
from glbandits.lab.experiments.run_spec import forget_digests, settings_digest
from glbandits.maths.matrix_products import best_arm
from glbandits.maths.vectors import add_scaled, dot
from glbandits.policies.contract import Policy, Positive, StateLayout, jittable

LAYOUT = StateLayout()
LEARNED = LAYOUT.count("learned")
theta_of = LAYOUT.vector("theta")


class Good(Policy):
    """A valid policy, in which tests replace functions by faulty ones."""

    name: ClassVar[str] = "good"
    layout: ClassVar[StateLayout] = LAYOUT

    step: Positive = 1.0

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: Any) -> Any:  # noqa: ARG004
        return best_arm(arms, theta_of(state, arms.shape[1]))

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: Any) -> Any:  # noqa: ARG004
        theta = theta_of(state, x.shape[0])
        state[LEARNED] += 1.0
        add_scaled(theta, settings.step * (reward - dot(x, theta)), x)
        return state


def undecorated(x: float) -> float:
    return 2.0 * x


@jittable
def decorated(x: float) -> float:
    return undecorated(x)


def play(policy: Any, rounds: int = 60) -> Bandit:
    bandit, rng = Bandit(policy, dim=3, seed=1), np.random.default_rng(0)
    for _ in range(rounds):
        arms = rng.normal(size=(4, 3))
        bandit.learn(arms[bandit.choose(arms)], 1.0)
    return bandit


def spoiled(**functions: Any) -> Any:
    """Return the valid policy with some functions replaced."""
    return type("Mine", (Good,), {"__module__": __name__, **functions})


def no_name() -> Any:
    class Mine(Policy):
        choose: ClassVar[Any] = Good.choose
        learn: ClassVar[Any] = Good.learn

    return Mine()


def no_learn() -> Any:
    class Mine(Policy):
        name: ClassVar[str] = "mine"
        choose: ClassVar[Any] = Good.choose

    return Mine()


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "the class instead of settings": (lambda: Good, r"an instance such as Good\(\); got the class. Add parentheses"),
    "no policy at all": (lambda: 7, "must be an instance of a subclass of Policy.*; got 7"),
    "no name": (no_name, "Mine has no name"),
    "no learn": (no_learn, "Mine has no learn. Define learn"),
    "a rule without an object": (
        spoiled(choose=lambda self, state, settings, arms, rng, link: 0),
        "Mine.choose has a parameter self",
    ),
    "too few parameters": (spoiled(choose=lambda state, arms: 0), r"must take \(state, settings, arms, rng, link\)"),
    "no return value": (
        spoiled(learn=lambda state, settings, x, reward, rng, link: None),
        "learn must return the state.*; got None. End it with `return state`",
    ),
    "a state of another type": (
        spoiled(learn=lambda state, settings, x, reward, rng, link: state.astype(np.float32)),
        r"learn must return the state.*; got float32 of shape \(4,\)",
    ),
    "an arm that is a float": (
        spoiled(choose=lambda state, settings, arms, rng, link: 1.0),
        "choose must return an integer, the index of an arm; got 1.0",
    ),
    "an arm that is True": (
        spoiled(choose=lambda state, settings, arms, rng, link: True),
        "choose must return an integer, the index of an arm; got True",
    ),
    "an arm that does not exist": (
        spoiled(choose=lambda state, settings, arms, rng, link: 5_000_000),
        "policy 'good' chose arm 5000000; choose must return an integer from 0 to 2",
    ),
    "an integer state": (
        spoiled(init=lambda self, dim: np.zeros(dim + 1, dtype=int)),
        "a vector of float64; got int64",
    ),
    "a state with two axes": (
        spoiled(init=lambda self, dim: np.zeros((dim, dim))),
        r"a vector of float64; got float64 of shape \(3, 3\)",
    ),
    "a list as state": (spoiled(init=lambda self, dim: [0.0] * dim), r"a vector of float64; got \[0.0, 0.0, 0.0\]"),
    "a setting that does not exist": (
        spoiled(choose=lambda state, settings, arms, rng, link: int(settings.stpe)),
        "Mine.choose reads settings.stpe, but compiled code has only step. Correct the name",
    ),
    "a helper without decorator": (
        spoiled(choose=lambda state, settings, arms, rng, link: int(undecorated(0.2))),
        "Mine.choose calls undecorated, which compiled code cannot call. Put @jittable",
    ),
    "a helper of a helper without decorator": (
        spoiled(choose=lambda state, settings, arms, rng, link: int(decorated(0.2))),
        "Mine.choose calls undecorated",
    ),
    "SciPy in learn": (
        spoiled(learn=lambda state, settings, x, reward, rng, link: minimize(lambda z: z * z, state).x),
        "Mine.learn calls minimize, .*function of scipy.* write the policy as an agent",
    ),
    "probabilities that do not sum to 1": (
        spoiled(probabilities=lambda state, settings, arms, link, out: out[0] > -1.0),
        "Mine.probabilities must write numbers of at least 0 that sum to 1",
    ),
    "a setting out of bounds": (lambda: Good(step=-1.0), "step must be a finite number above 0; got -1.0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_reported_before_the_policy_runs(mistake: str) -> None:
    make, message = MISTAKES[mistake]
    with pytest.raises(GlbanditsError, match=message):
        Bandit(make(), dim=3, seed=1)


def late_arm(state: Floats, settings: Any, arms: Floats, rng: Generator, link: Any) -> int:  # noqa: ARG001
    return arms.shape[0] if state[LEARNED] > 20.0 else 0


def negative_arm(state: Floats, settings: Any, arms: Floats, rng: Generator, link: Any) -> int:  # noqa: ARG001
    return -1 if state[LEARNED] > 20.0 else 0


def late_index(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: Any) -> Floats:  # noqa: ARG001
    state[LEARNED] += 1.0
    if state[LEARNED] > 20.0:
        state[int(state[LEARNED]) * 10**6] = 1.0
    return state


def short_theta(state: Floats, settings: Any, arms: Floats, rng: Generator, link: Any) -> int:  # noqa: ARG001
    return best_arm(arms, state[:1] if state[LEARNED] > 20.0 else theta_of(state, arms.shape[1]))


def sometimes_float(state: Floats, settings: Any, arms: Floats, rng: Generator, link: Any) -> float:  # noqa: ARG001
    if state[LEARNED] > 20.0:
        return 0.0
    return 0


def unsupported(state: Floats, settings: Any, arms: Floats, rng: Generator, link: Any) -> int:  # noqa: ARG001
    return int(np.einsum("ij->i", arms).argmax())


MODEL = SGDRegressor()


def learn_with_model(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: Any) -> Floats:  # noqa: ARG001
    MODEL.partial_fit(x.reshape(1, -1), [reward])
    return state


LATE = {
    "an arm that does not exist": (spoiled(choose=late_arm), "policy 'good' chose arm 4; .* from 0 to 3"),
    "a negative arm": (spoiled(choose=negative_arm), "policy 'good' chose arm -1"),
    "an index out of range": (spoiled(learn=late_index), "policy 'good' used an index out of range"),
    "a vector too short for our code": (spoiled(choose=short_theta), "policy 'good' used an index out of range"),
    "a float on one path": (spoiled(choose=sometimes_float), r"it can return float64. Convert it by int\(...\)"),
    "NumPy that Numba lacks": (
        spoiled(choose=unsupported),
        "unsupported NumPy function 'numpy.einsum'.*, in unsupported, line .* write the policy as an agent",
    ),
    "an object of scikit-learn": (
        spoiled(learn=learn_with_model),
        "it uses 'MODEL', of type sklearn.*, in learn_with_model, line .* write the policy as an agent",
    ),
}


@pytest.mark.safety
@pytest.mark.parametrize("mistake", LATE)
def test_mistake_at_run_time_is_an_error_not_a_crash(mistake: str) -> None:
    make, message = LATE[mistake]
    with pytest.raises(GlbanditsError, match=message):
        play(make())


@pytest.mark.safety
@pytest.mark.parametrize("mistake", ["a negative arm", "an index out of range"])
def test_mistake_is_an_error_in_a_simulation_too(mistake: str) -> None:
    make, message = LATE[mistake]
    with pytest.raises(GlbanditsError, match=message):
        simulate(make(), Synthetic(dim=3, arms=4), 60, [1])


ARM = 1


class ReadsGlobal(Good):
    name: ClassVar[str] = "reads-global"

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: Any) -> Any:  # noqa: ARG004
        return ARM


@pytest.mark.safety
@pytest.mark.usefixtures("compiled_now")
def test_changed_variable_of_compiled_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, policy = Synthetic(dim=3, arms=4, link="identity"), ReadsGlobal()

    def choices(compiled: bool) -> set[int]:
        played = simulate(policy, problem, 9, 1, compiled=compiled)
        assert played.choices is not None
        return set(played.choices.ravel().tolist())

    assert choices(compiled=True) == {1}
    digest = settings_digest(policy, 3)
    monkeypatch.setattr(sys.modules[__name__], "ARM", 2)
    for play_again in (lambda: choices(compiled=True), lambda: Bandit(policy, dim=3)):
        with pytest.raises(GlbanditsError, match="that ReadsGlobal.choose reads has changed since"):
            play_again()
    assert choices(compiled=False) == {2}
    forget_digests()
    assert settings_digest(policy, 3) != digest
    monkeypatch.undo()
    assert choices(compiled=True) == {1}


def test_valid_policy_is_accepted() -> None:
    assert play(Good()).state[LEARNED] == 60.0


def test_explicit_dataclass_decorator_is_allowed() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Habit(Uniform):
        name: ClassVar[str] = "habit"
        extra: Positive = 2.0

    assert Habit(extra=3.0).extra == 3.0
    with pytest.raises(GlbanditsError, match="extra must be"):
        Habit(extra=0.0)


def test_new_choose_does_not_inherit_probabilities() -> None:
    class FirstArm(Uniform):
        name: ClassVar[str] = "first-arm"

        @staticmethod
        def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: Any) -> int:  # noqa: ARG004
            return 0

    bandit = Bandit(FirstArm(), dim=2, seed=1)
    assert bandit.exact_probabilities(np.eye(2)) is None
    np.testing.assert_allclose(bandit.probabilities(np.eye(2), draws=99), [0.995, 0.005])
