"""Tests of every sparse form of a policy. Add a new one to FORMS."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, EpsilonGreedy, InvalidInput, ModelFileError, Optimist, Policy, SparseRows, Uniform
from glbandits.bandit.policy_trials import Subject
from glbandits.common.arrays import Floats
from glbandits.compilation.entry_point import entry_point
from glbandits.lab.environments.noise import NOISES
from glbandits.lab.simulation.play_recipes import play_recipe
from glbandits.maths.links import own_link
from glbandits.maths.philox import generator
from glbandits.maths.sparse_rows import as_sparse_rows
from glbandits.policies import POLICIES, LaplaceTs
from glbandits.policies.contract import settings_of
from glbandits.policies.sparse_forms import sparse_form
from tests.laws.test_every_policy import every_law, named

DIM, ARMS, ROUNDS = 30, 7, 80
LINKS = ("logistic", "identity", "log")

FORMS: dict[str, Policy] = {
    "uniform": Uniform(link="logistic"),
    "optimist": Optimist(covariance="diagonal"),
    "optimist that forgets": Optimist(covariance="diagonal", half_life=40, floor=0.1),
    "laplace-ts": LaplaceTs(exploration=0.5),
    "epsilon-greedy": EpsilonGreedy(fit="online"),
}


every_form = pytest.mark.parametrize("policy", named(FORMS))


def rounds(link: str, count: int = ROUNDS, seed: int = 0) -> Iterator[tuple[Floats, Floats]]:
    """Yield arms with a quarter of their features nonzero, and the reward of each arm."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=DIM)
    for _ in range(count):
        arms = rng.normal(size=(ARMS, DIM)) * (rng.random((ARMS, DIM)) < 0.25)
        scores = 0.5 * arms @ theta - 0.2
        if link == "identity":
            yield arms, scores + rng.normal(size=ARMS)
        elif link == "log":
            yield arms, rng.poisson(np.exp(np.minimum(scores, 3.0))).astype(float)
        else:
            yield arms, (rng.random(ARMS) < 1.0 / (1.0 + np.exp(-scores))).astype(float)


def learned(policy: Policy, count: int = 60, dim: int = DIM, shift: int = 0) -> Bandit:
    """Return a sparse Bandit that has played `count` rounds. The indices of its features start at `shift`."""
    return learned_once(policy, count, dim, shift).copy()


@cache
def learned_once(policy: Policy, count: int, dim: int, shift: int) -> Bandit:
    bandit = Bandit(policy, dim, seed=5, sparse=True)
    for arms, rewards in rounds("logistic", count):
        rows = shifted(as_sparse_rows(arms, DIM), shift)
        arm = bandit.choose(rows)
        bandit.learn(rows.row(arm), rewards[arm])
    return bandit


def shifted(rows: SparseRows, shift: int) -> SparseRows:
    return SparseRows(rows.indptr, rows.indices + shift, rows.values)


@every_form
@every_law
def test_sparse_form_obeys_the_law(policy: Policy, law: Any) -> None:
    law(Subject(policy, 8, sparse=True))


@every_form
@pytest.mark.parametrize("link", LINKS)
def test_dense_and_sparse_forms_make_the_same_choices(policy: Any, link: str) -> None:
    if "link" in settings_of(policy):
        policy = replace(policy, link=link)
    elif link != "identity":
        pytest.skip("the policy has a fixed link")
    dense, sparse = Bandit(policy, DIM, seed=1), Bandit(policy, DIM, seed=1, sparse=True)
    for t, (arms, rewards) in enumerate(rounds(link)):
        rows = as_sparse_rows(arms, DIM)
        if t % 10 == 0:
            expected, exact = dense.exact_probabilities(arms), sparse.exact_probabilities(rows)
            assert (expected is None) == (exact is None)
            if expected is not None and exact is not None:
                np.testing.assert_allclose(exact, expected, rtol=0.0, atol=1e-9)
        arm = dense.choose(arms)
        assert sparse.choose(rows) == arm, t
        dense.learn(arms[arm], rewards[arm])
        sparse.learn(rows.row(arm), rewards[arm])
    expected_theta, theta = dense.coefficients(), sparse.coefficients()
    if expected_theta is not None and theta is not None:
        np.testing.assert_allclose(theta.at(np.arange(DIM)), expected_theta.at(np.arange(DIM)), rtol=1e-7, atol=1e-9)
        assert theta.intercept == pytest.approx(expected_theta.intercept)


@pytest.mark.safety
@pytest.mark.usefixtures("compiled_now")
@every_form
def test_compiled_code_plays_as_plain_python(policy: Policy) -> None:
    played = [(as_sparse_rows(arms, DIM), rewards) for arms, rewards in rounds("logistic", 120)]
    all_rows = as_sparse_rows(np.concatenate([arms for arms, _ in rounds("logistic", 120)]), DIM)
    expected, starts = np.array([rewards for _, rewards in played]), np.arange(0, all_rows.row_count, ARMS)
    best, noise = expected.max(axis=1), np.full(len(played), 0.5)  # so that a reward is its expectation, 0 or 1
    numbers = expected, expected, best, NOISES["bernoulli"].number, noise
    arguments = (tuple(all_rows), starts, np.full(len(played), ARMS), *numbers, 0.0)
    form = sparse_form(policy, DIM)
    play = entry_point(play_recipe, form.implementation(DIM), own_link(policy.link), None)
    results = []
    for function in (play.compiled(), play.recipe.function):
        choices, regret, rng = np.empty(len(played), dtype=np.int64), np.empty(len(played)), generator(3)
        with np.errstate(all="ignore"):
            state = function(form.init(DIM), form.packed_settings(DIM), rng, *arguments, choices, regret)
        results.append((choices, state, rng, regret))
    for compiled, plain in zip(*results, strict=True):
        np.testing.assert_array_equal(compiled, plain)
    bandit, bandit_choices = Bandit(policy, DIM, seed=3, sparse=True), []
    for rows, rewards in played:
        arm = bandit.choose(rows)
        bandit.learn(rows.row(arm), rewards[arm])
        bandit_choices.append(arm)
    np.testing.assert_array_equal(results[0][0], bandit_choices)


@every_form
def test_state_size_does_not_depend_on_dim(policy: Policy) -> None:
    few, many = learned(policy), learned(policy, dim=2**40, shift=2**20)
    assert few.state.size == many.state.size
    assert Bandit(policy, 2**40, sparse=True).state.nbytes < 20_000


@every_form
def test_stored_zeros_are_ignored(policy: Policy) -> None:
    with_zeros, without_zeros = learned(policy), learned(policy)
    rows = SparseRows(np.array([0, 3]), np.array([1, 2, 3]), np.array([0.5, 0.0, 1.0]))
    with_zeros.learn(rows, 1.0)
    without_zeros.learn(as_sparse_rows([[0.0, 0.5, 0.0, 1.0] + [0.0] * (DIM - 4)], DIM), 1.0)
    np.testing.assert_array_equal(with_zeros.state, without_zeros.state)


@every_form
def test_changed_states_are_rejected_or_safe(policy: Policy) -> None:
    for count in (3, 60):
        bandit = learned(policy, count)
        state, form = bandit.state, sparse_form(policy, DIM)
        assert not form.is_valid_state(state[: state.size // 2], DIM)
        for position in range(state.size):
            broken = state.copy()
            broken[position] = 1e9  # if the state is valid, compiled code must not crash
            if form.is_valid_state(broken, DIM):
                bandit.state = broken
                with suppress(OverflowError):  # of plain Python, where machine code continues with inf
                    bandit.choose(np.eye(DIM)[:3])
                    bandit.learn(np.eye(DIM)[4], 1.0)


def test_policy_without_a_sparse_form_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="lin-ts has no sparse form"):
        Bandit(POLICIES["lin-ts"](), 4, sparse=True)


def test_changed_sparsity_of_a_model_file_is_an_error() -> None:
    content = learned(Optimist()).to_bytes()
    with pytest.raises(ModelFileError, match="changed or damaged"):
        Bandit.from_bytes(content.replace(b'"rows":"sparse"', b'"rows":"dense" '))


def test_too_many_features_are_an_error() -> None:
    with pytest.raises(InvalidInput, match="dim must be a whole number of at least 1"):
        Bandit(Optimist(), 2**41, sparse=True)


@every_form
def test_state_stays_within_its_maximum_size(policy: Policy) -> None:
    bandit, rng, max_size = Bandit(policy, 10_000, seed=0, sparse=True), np.random.default_rng(0), 1500
    known = np.array([0, 5, 10, 15])
    for t in range(200):
        indices = known if t % 10 == 0 else np.unique(rng.integers(20, 10_000, 6))
        row = SparseRows(np.array([0, indices.size]), indices, np.ones(indices.size))
        learnable = bandit.learnable(row, max_size)
        assert np.isin(learnable.indices, indices).all()
        bandit.learn(learnable, float(t % 2))
        assert bandit.state.size <= max_size
    theta = bandit.coefficients()
    if theta is not None and theta.indices is not None:
        assert 20 <= theta.indices.size < 200 * 6
        assert np.isin(known, theta.indices).all()
