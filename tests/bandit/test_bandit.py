import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput, Link, Optimist, SgdTs
from glbandits.policies import LaplaceTs
from tests.maths.link_support import cauchit_link

ARMS = np.array([[0.5, -0.25], [0.0, 1.0], [-1.0, 0.5]])


@cache
def _learned_bandit() -> Bandit:
    bandit = Bandit(SgdTs(block_length=4), dim=2, seed=3)
    for i in range(10):
        bandit.learn(ARMS[i % 3], float(i % 2))
    return bandit


def learned_bandit() -> Bandit:
    return _learned_bandit().copy()


BAD_CALLS: dict[str, tuple[Callable[[Bandit], object], str]] = {
    "a NaN arm": (lambda b: b.choose([[0.0, math.nan]]), r"arms must hold finite numbers .*got nan at \[0, 1\]"),
    "an infinite arm": (lambda b: b.choose(np.array([[0.0, 1.0], [math.inf, 0.0]])), r"got inf at \[1, 0\]"),
    "a huge arm": (lambda b: b.choose([[1e60, 0.0]]), "no larger than 1e.* Use a larger unit"),
    "too few features": (lambda b: b.choose([[0.0]]), r"arms must have shape \(K, 2\).*got \(1, 1\)"),
    "no arm": (lambda b: b.choose(np.zeros((0, 2))), r"at least one row; got shape \(0, 2\)"),
    "one arm without brackets": (lambda b: b.choose([0.0, 1.0]), r"arms must have shape \(K, 2\)"),
    "words": (lambda b: b.choose([["a", "b"]]), "arms must hold plain numbers; got text in"),
    "ragged rows": (lambda b: b.choose([[1.0], [1.0, 2.0]]), "arms must be an array of numbers"),
    "nothing": (lambda b: b.choose(None), "arms must"),
    "a long x": (lambda b: b.learn([1.0, 2.0, 3.0], 1.0), r"x must have shape \(2,\).*got \(3,\)"),
    "an x with brackets": (lambda b: b.learn(ARMS[:1], 1.0), r"x must have shape \(2,\)"),
    "a NaN x": (lambda b: b.learn([math.nan, 0.0], 1.0), "x must hold finite numbers"),
    "a NaN reward": (
        lambda b: b.learn(ARMS[0], math.nan),
        "reward must hold finite numbers .* Fill in or drop missing values",
    ),
    "a reward outside [0, 1]": (lambda b: b.learn(ARMS[0], 5.0), "between 0 and 1; got 5.0"),
    "a negative reward": (lambda b: b.learn(ARMS[0], -1.0), "between 0 and 1; got -1.0"),
    "a reward that is no number": (lambda b: b.learn(ARMS[0], "yes"), "must hold plain numbers; got the text 'yes'"),  # type: ignore[arg-type]
    "several rewards": (lambda b: b.learn(ARMS[0], np.ones(2)), "reward must be one number"),  # type: ignore[arg-type]
    "a batch of unequal lengths": (lambda b: b.learn_batch(ARMS, [1.0]), r"got \(3, 2\) and \(1,\)"),
    "a batch with a bad last reward": (lambda b: b.learn_batch(ARMS, [1.0, 0.0, 7.0]), "got 7.0"),
    "a batch with a bad last row": (
        lambda b: b.learn_batch([[0.0, 0.0], [0.0, math.nan]], [1.0, 1.0]),
        "features must hold",
    ),
    "probabilities of no arm": (lambda b: b.probabilities(np.zeros((0, 2))), "at least one row"),
    "an empty list": (lambda b: b.choose([]), r"arms must have shape \(K, 2\)"),
    "an empty x": (lambda b: b.learn([], 1.0), r"x must have shape \(2,\)"),
    "complex numbers": (lambda b: b.choose([[1j, 0.0]]), "arms must hold plain numbers; got complex128"),
    "dates": (lambda b: b.choose(np.zeros((1, 2), dtype="M8[s]")), "arms must hold plain numbers; got datetime64"),
    "a masked number": (lambda b: b.choose(np.ma.masked_equal(ARMS, 1.0)), "arms must hold plain numbers"),
    "a masked reward": (lambda b: b.learn(ARMS[0], np.ma.masked), "reward must hold plain numbers"),  # type: ignore[arg-type]
    "a whole number too large": (lambda b: b.choose([[10**400, 0]]), "arms must be an array of numbers"),
    "no draws": (lambda b: b.probabilities(ARMS, draws=0), "draws must be a whole number of at least 1; got 0"),
}


@pytest.mark.parametrize(("call", "message"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_bad_input_is_refused_and_changes_nothing(call: Callable[[Bandit], object], message: str) -> None:
    bandit, untouched = learned_bandit(), learned_bandit()
    with pytest.raises(InvalidInput, match=message):
        call(bandit)
    np.testing.assert_array_equal(bandit.state, untouched.state)
    assert [bandit.choose(ARMS) for _ in range(5)] == [untouched.choose(ARMS) for _ in range(5)]


@pytest.mark.parametrize(
    "arms",
    [
        ARMS.tolist(),
        ARMS.astype(np.float32),
        np.asfortranarray(ARMS),
        np.repeat(ARMS, 2, axis=0)[::2],
        ARMS.astype(">f8"),
        np.ma.masked_array(ARMS),
    ],
    ids=["lists", "float32", "columns first", "strided", "big-endian", "subclass"],
)
def test_arms_of_any_array_type_are_accepted(arms: object) -> None:
    bandit, plain = learned_bandit(), learned_bandit()
    assert [bandit.choose(arms) for _ in range(5)] == [plain.choose(ARMS) for _ in range(5)]
    bandit.learn(arms[0], 1)  # type: ignore[index]
    plain.learn(ARMS[0], 1.0)
    np.testing.assert_array_equal(bandit.state, plain.state)


def test_read_only_arrays_are_accepted() -> None:
    arms = ARMS.copy()
    arms.flags.writeable = False
    bandit = learned_bandit()
    bandit.learn(arms[bandit.choose(arms)], np.float64(1.0))


def test_rewards_may_come_late_and_in_any_order() -> None:
    # Inside a block the gradient is a sum at one theta, so the order of its rewards changes only rounding.
    rng = np.random.default_rng(0)
    first, X = rng.uniform(-1, 1, (8, 2)), rng.uniform(-1, 1, (8, 2))
    y = rng.integers(0, 2, 8).astype(float)
    in_order, shuffled = Bandit(SgdTs(block_length=8), dim=2, seed=1), Bandit(SgdTs(block_length=8), dim=2, seed=1)
    for bandit in (in_order, shuffled):
        bandit.learn_batch(first, y)
    order = rng.permutation(8)
    in_order.learn_batch(X, y)
    shuffled.learn_batch(X[order], y[order])
    np.testing.assert_allclose(in_order.state, shuffled.state, rtol=1e-12, atol=1e-14)


def test_candidate_draws_have_exact_probabilities() -> None:
    bandit = Bandit(
        SgdTs(block_length=5, draw="candidates", candidates=10, exploration_a1=2.0, floor=0.2), dim=2, seed=6
    )
    rng = np.random.default_rng(6)
    for _ in range(12):
        bandit.learn(rng.uniform(-1, 1, 2), float(rng.random() < 0.5))
    p = bandit.probabilities(ARMS)
    shares = (p - 0.2 / 3) / 0.8 * 10
    np.testing.assert_allclose(shares, np.round(shares), atol=1e-9)  # multiples of 1/10, apart from the floor
    assert p.min() >= 0.2 / 3 - 1e-15
    assert p.max() < 1.0


@pytest.mark.safety
def test_user_defined_link_is_accepted() -> None:
    cauchit: Link = cauchit_link()
    bandit = Bandit(LaplaceTs(link=cauchit), dim=2, seed=2)
    for i in range(30):
        arm = bandit.choose(ARMS)
        bandit.learn(ARMS[arm], float(i % 3 == 0))
    assert np.isfinite(bandit.state).all()
    with pytest.raises(InvalidInput, match="a reward under the cauchit link"):
        bandit.learn(ARMS[0], 2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": SgdTs, "dim": 2}, "got the class. Add parentheses"),
        ({"policy": 3, "dim": 2}, "policy must be an instance of a subclass of Policy"),
        ({"policy": SgdTs(), "dim": 0}, "dim must be a whole number of at least 1; got 0"),
        ({"policy": SgdTs(), "dim": 2, "seed": -1}, "seed must be a whole number of at least 0; got -1"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Bandit(**arguments)  # type: ignore[arg-type]


def test_state_can_be_assigned() -> None:
    first, second = Bandit(Optimist(), 2, seed=1), Bandit(Optimist(), 2, seed=1)
    first.learn([1.0, 0.0], 1.0)
    second.state = first.state
    first.learn([1.0, 0.0], 1.0)  # the second has a copy
    second.learn([1.0, 0.0], 1.0)
    np.testing.assert_array_equal(first.state, second.state)
    with pytest.raises(InvalidInput, match=r"state must be the state of .* optimist and 2 features; got .* \(3,\)"):
        second.state = np.zeros(3)


@pytest.mark.parametrize("state", [[1.0, 2.0], 3.0, "text", None])
def test_state_that_is_no_array_is_refused(state: Any) -> None:
    bandit = Bandit(Optimist(), 2)
    with pytest.raises(InvalidInput, match="state must"):
        bandit.state = state
