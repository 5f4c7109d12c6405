"""A decision from a catalogue equals the decision on the matrix of its features."""

from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, Catalogue, Optimist, Policy, SgdTs, cross_features
from glbandits.bandit import arm_bounds, decider
from glbandits.common.arrays import Floats
from tests.laws.test_every_policy import VARIANTS, named

DIM = 5


@pytest.fixture(autouse=True)
def bounds_for_small_catalogues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decider, "WORTH_BOUNDS", 0.0)
    monkeypatch.setattr(arm_bounds, "FIRST_VARIANCES", 4)


def normal_features(rng: np.random.Generator, count: int, dim: int) -> Floats:
    return rng.normal(size=(count, dim))


def equal_features(rng: np.random.Generator, count: int, dim: int) -> Floats:
    return np.ones((count, dim)) * rng.integers(2)


def few_distinct_features(rng: np.random.Generator, count: int, dim: int) -> Floats:
    return rng.integers(0, 2, size=(count, dim)).astype(float)


def nearly_equal_features(rng: np.random.Generator, count: int, dim: int) -> Floats:
    return 1.0 + 1e-9 * rng.normal(size=(count, dim))


def features_in_odd_units(rng: np.random.Generator, count: int, dim: int) -> Floats:
    return rng.normal(size=(count, dim)) * 10.0 ** np.linspace(-30, 30, dim)


def collinear_features(rng: np.random.Generator, count: int, dim: int) -> Floats:
    return rng.normal(size=(count, 1)) * np.ones(dim) + 1e-7 * rng.normal(size=(count, dim))


def one_hot_features(rng: np.random.Generator, count: int, dim: int) -> Floats:
    one_hot: Floats = np.eye(dim)[rng.integers(dim, size=count)]
    scaled: Floats = one_hot * rng.choice([1.0, 1e-3, 100.0], size=(count, 1))
    return scaled


KINDS = [
    normal_features,
    equal_features,
    few_distinct_features,
    nearly_equal_features,
    features_in_odd_units,
    collinear_features,
    one_hot_features,
]


def assert_same_decision(bandit: Bandit, catalogue: Catalogue, excluded: list[Any], context: Any = None) -> Any:
    """Compare a decision from the catalogue with that of an equal bandit on the features; returns the arm."""
    rows = [catalogue.row(arm) for arm in catalogue if arm not in excluded]
    other, features = bandit.copy(), catalogue.combined(np.ascontiguousarray(catalogue.features[rows]), context)
    exact, of_features = (
        bandit.exact_probabilities_from(catalogue, context, excluded=excluded),
        other.exact_probabilities(features),
    )
    if of_features is None:
        assert exact is None
    else:
        assert exact is not None
        expected = np.zeros(len(catalogue))
        expected[rows] = of_features
        np.testing.assert_allclose(exact, expected, rtol=0.0, atol=1e-12)
        assert ((exact > 0.0) == (expected > 0.0)).all()
    arm = bandit.choose_from(catalogue, context, excluded=excluded)
    assert catalogue.row(arm) == rows[other.choose(features)]
    return arm


def play(policy: Policy, make: Any, seed: int, rounds: int, dim: int = DIM, largest: int = 80) -> None:
    """Play with random rewards, arms added and retired in between, and several rewards or none after a decision."""
    rng = np.random.default_rng(seed)
    bandit = Bandit(policy, dim, seed=seed)
    bandit.warns_of_outliers = False
    catalogue, next_id = Catalogue(range(40), make(rng, 40, dim)), 40
    for _ in range(rounds):
        excluded = [] if rng.random() < 0.7 else list(rng.choice(len(catalogue), size=5))
        if all(arm in excluded for arm in catalogue):
            continue
        arm = assert_same_decision(bandit, catalogue, excluded)
        for _ in range(rng.choice([0, 1, 1, 1, 3, 20], p=[0.1, 0.3, 0.3, 0.1, 0.15, 0.05])):
            bandit.learn(catalogue[arm], float(rng.integers(2)))
            arm = catalogue.id_of(int(rng.integers(len(catalogue))))
        if rng.random() < 0.2 and len(catalogue) < largest:
            count = int(rng.integers(1, 30))
            catalogue.add(range(next_id, next_id + count), make(rng, count, dim))
            next_id += count
        if rng.random() < 0.2 and len(catalogue) > 20:
            catalogue.retire(rng.choice(np.array(catalogue.ids), size=int(rng.integers(1, 10)), replace=False))


@pytest.mark.parametrize("policy", named(VARIANTS))
def test_every_policy_decides_as_on_the_matrix(policy: Policy) -> None:
    play(policy, normal_features, seed=1, rounds=18, dim=3)


few_and_many = pytest.mark.parametrize(("runs", "rounds"), [(1, 36), pytest.param(3, 300, marks=pytest.mark.slow)])


@few_and_many
@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("link", ["logistic", "identity"])
def test_optimist_decides_as_on_the_matrix(make: Any, link: str, runs: int, rounds: int) -> None:
    for seed in range(runs):
        play(Optimist(link=link), make, seed=seed, rounds=rounds)


@few_and_many
@pytest.mark.parametrize("policy", [Optimist(floor=0.3), Optimist(half_life=10), Optimist(half_life="auto", floor=0.1)])
def test_optimist_with_settings_decides_as_on_the_matrix(policy: Policy, runs: int, rounds: int) -> None:
    for seed in range(runs):
        play(policy, normal_features, seed=5 + seed, rounds=rounds)


OTHERS = (Optimist(link="identity", floor=0.2), SgdTs(block_length=20))


@pytest.mark.parametrize(
    ("policy", "context_dim"),
    [
        *((policy, 2) for policy in (Optimist(), *OTHERS)),  # one block of features
        # several blocks, and so many features that everything is compiled
        pytest.param(Optimist(), 25, marks=pytest.mark.safety),
        *(pytest.param(policy, 25, marks=pytest.mark.slow) for policy in OTHERS),
    ],
)
def test_decisions_in_contexts_equal_those_on_the_matrix(policy: Policy, context_dim: int) -> None:
    rng, count = np.random.default_rng(1), 200 if context_dim == 25 else 60
    bandit = Bandit(policy, DIM + context_dim + DIM * context_dim, seed=1)
    catalogue = Catalogue(range(count), rng.normal(size=(count, DIM)), combine=cross_features)
    for _ in range(40):
        context = rng.normal(size=context_dim)
        arm = assert_same_decision(bandit, catalogue, [1, 2, 3], context)
        bandit.learn(catalogue.features_for(arm, context), float(rng.integers(2)))


@pytest.mark.parametrize("make", [*KINDS, lambda _, count, dim: np.eye(count, dim)])
def test_any_affine_combine_decides_as_on_the_matrix(make: Any) -> None:
    rng, count, dim = np.random.default_rng(3), 40, 20
    slopes, constant = rng.normal(size=(dim, 4)), 100.0 * rng.normal(size=4)
    slopes[rng.choice(dim, size=5)] = 0.0  # features that `combine` ignores
    features = make(rng, count, dim)
    features /= max(1.0, np.abs(features).max())
    catalogue = Catalogue(range(count), features, combine=lambda rows, context: rows @ slopes * context + constant)
    bandit = Bandit(Optimist(), 4, seed=1)
    for context in (1.0, 1.0, 0.0, -3.0, 1.0, 0.0, 0.0):
        arm = assert_same_decision(bandit, catalogue, [], [context])
        for _ in range(rng.integers(1, 4)):
            bandit.learn(catalogue.features_for(arm, [context]), float(rng.integers(2)))


def test_bandits_with_one_catalogue_decide_as_on_the_matrix() -> None:
    rng = np.random.default_rng(2)
    catalogue = Catalogue(range(60), rng.normal(size=(60, DIM)))
    bandits = [Bandit(Optimist(), DIM, seed=seed) for seed in range(2)]
    for _ in range(60):
        bandit = bandits[rng.integers(2)]
        arm = assert_same_decision(bandit, catalogue, [])
        bandit.learn(catalogue[arm], float(rng.integers(2)))
