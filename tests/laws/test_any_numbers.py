"""Any numbers that `learn` accepts leave a state that is valid, can be loaded, and makes decisions.

Hostile or careless clients send ids, timestamps, sums of money and physical units in the same row. A Bandit accepts
numbers up to MAX_ABS, so every policy must bear them: its decisions may be poor, but its state must stay usable.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from glbandits import (
    POLICIES,
    Bandit,
    Ecolog,
    EpsilonGreedy,
    GlbOmd,
    GlmFpl,
    GlmUcb,
    Gloc,
    GlocTs,
    LaplaceTs,
    LinTs,
    LinUcb,
    LinUcbDisjoint,
    OfuglbE,
    OnlineLaplace,
    Optimist,
    Policy,
    RsGlincb,
    SgdTs,
    SupCbGlm,
    UcbGlm,
    as_sparse_rows,
)
from glbandits.common.arrays import Floats
from glbandits.common.errors import MAX_ABS
from glbandits.maths.links import Link, find_link
from glbandits.policies.algorithms.lin_ucb_disjoint import blocks_at
from glbandits.policies.algorithms.supcb_glm import STAGE, stage_size, stages_at
from glbandits.policies.contract import settings_of
from glbandits.policies.sparse_forms import sparse_form
from tests.laws.test_every_policy import VARIANTS, allows, named
from tests.laws.test_sparse_policies import FORMS

pytestmark = pytest.mark.filterwarnings("ignore::glbandits.OutlierWarning")

ARMS, DRAWS = 4, 5
Numbers: TypeAlias = Callable[[np.random.Generator, int], Floats]
"""The features of ARMS arms, (ARMS, dim)."""


def of_any_magnitude(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(-300.0, math.log10(MAX_ABS), shape)


def with_an_id(rng: np.random.Generator, dim: int) -> Floats:
    arms = rng.integers(0, 2, (ARMS, dim)).astype(float)
    arms[:, rng.integers(dim)] = float(rng.integers(10**17, 4 * 10**18))
    return arms


FEATURES: dict[str, Numbers] = {
    "ordinary": lambda rng, dim: rng.normal(size=(ARMS, dim)),
    "any magnitude": lambda rng, dim: of_any_magnitude(rng, (ARMS, dim)),
    "one magnitude in a row": lambda rng, dim: of_any_magnitude(rng, (ARMS, 1)) * rng.uniform(0.1, 1.0, (ARMS, dim)),
    "constant rows": lambda rng, dim: np.repeat(of_any_magnitude(rng, (ARMS, 1)), dim, axis=1),
    "units": lambda rng, dim: rng.choice([0.0, 1.0, -1.0, 1e6, 1e12, 1e20], (ARMS, dim)),
    "an id": with_an_id,
    "largest": lambda rng, dim: rng.choice([-MAX_ABS, MAX_ABS], (ARMS, dim)),
    "large and ordinary": lambda rng, dim: rng.normal(size=(ARMS, dim)) * rng.choice([1.0, 1e49], (ARMS, dim)),
    "smallest": lambda rng, dim: rng.choice([-1e-300, 1e-300], (ARMS, dim)),
    "small": lambda rng, dim: 1e-150 * rng.normal(size=(ARMS, dim)),
    "zeros": lambda rng, dim: 0.0 * rng.normal(size=(ARMS, dim)),
}


def rewards(link: Link, rng: np.random.Generator) -> Iterator[float]:
    """Yield rewards that the link accepts: both ends, numbers of any size, and alternating extremes."""
    lowest, highest = max(link.lowest_reward, -MAX_ABS), min(link.highest_reward, MAX_ABS)
    while True:
        kind = rng.integers(4)
        for t in range(rng.integers(1, 6)):
            reward = float(rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-300.0, math.log10(MAX_ABS)))
            ends = highest if t % 2 else lowest
            yield min(max((reward, ends, rng.normal(), ends if kind == 3 else highest)[kind], lowest), highest)


def rounds(link: Link, dim: int, count: int, seed: int, sizes: str | None) -> Iterator[tuple[Floats, float]]:
    """Yield arms and a reward. The features have the sizes of this name, and others in one round of four.

    If no name is given, each round has other sizes. Arms are at times duplicated, and rounds repeated.
    """
    rng, known, names = np.random.default_rng(seed), [np.zeros((ARMS, dim))], list(FEATURES)
    own_rewards = rewards(link, rng)
    for _ in range(count):
        if sizes is None or rng.random() < 0.25:
            arms = FEATURES[names[rng.integers(len(names))]](rng, dim)
        else:
            arms = FEATURES[sizes](rng, dim)
        if rng.random() < 0.2:
            arms[1:] = arms[0]
        if rng.random() < 0.2:
            arms = known[rng.integers(len(known))]
        known.append(arms)
        yield arms, next(own_rewards)


def variances(bandit: Bandit) -> Floats:
    """Return variances of coefficients, or of linear functions of them. Empty if the state has none."""
    policy, state, dim = bandit.policy, bandit.state, bandit.dim
    rule = None if bandit.sparse else policy.bonus_rule(state, dim)
    if rule is not None:
        return np.diagonal(rule.covariance)
    if bandit.sparse:
        return np.empty(0)
    if isinstance(policy, LinUcbDisjoint):
        c = policy.context_dim
        factors = list(state[blocks_at(dim) :].reshape(-1, c, c))
    elif isinstance(policy, SupCbGlm):
        stages = state[stages_at(dim) :][: policy.stages(dim) * stage_size(dim)].reshape(-1, stage_size(dim))
        factors = [STAGE.parts(stage, dim)["V"].reshape(dim, dim) for stage in stages]
    else:
        parts = policy.layout.parts(state, dim) if policy.layout.is_valid(state, dim) else {}
        if "precisions" in parts:
            return np.asarray(1.0 / parts["precisions"])
        factors = [parts[name].reshape(dim, dim) for name in ("factor", "W", "V", "H", "H_played") if name in parts]
    return np.array([np.square(solve_triangular(R, np.eye(len(R)))).sum(axis=1) for R in factors])


def check_state(bandit: Bandit) -> None:
    """Assert that the state is valid, can be loaded, and has finite variances of at least 0."""
    form = sparse_form(bandit.policy, bandit.dim) if bandit.sparse else bandit.policy
    assert form.is_valid_state(bandit.state, bandit.dim), bandit.state
    np.testing.assert_array_equal(Bandit.from_bytes(bandit.to_bytes()).state, bandit.state)
    spread = variances(bandit)
    assert (np.isfinite(spread) & (spread >= 0.0)).all(), spread


def check_decisions(bandit: Bandit, arms: Floats) -> None:
    """Assert that the Bandit chooses one of these arms, and that their probabilities sum to 1."""
    probabilities = bandit.probabilities(arms, draws=DRAWS)
    assert (probabilities >= 0.0).all(), probabilities
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-9), probabilities
    assert 0 <= bandit.copy().choose(arms) < ARMS


def obey(policy: Policy, dim: int, count: int, seed: int, *, sizes: str | None = None, sparse: bool = False) -> None:
    """Assert the law for a sequence of numbers, every 10 rounds and at the end."""
    bandit, rng = Bandit(policy, dim, seed=seed, sparse=sparse), np.random.default_rng(seed)
    for t, (arms, reward) in enumerate(rounds(find_link(policy.link), dim, count, seed, sizes)):
        arm = bandit.choose(arms) if t % 2 else int(rng.integers(ARMS))
        x = as_sparse_rows(arms[arm : arm + 1], dim) if sparse else arms[arm]
        bandit.learn(x, reward)
        if t % 10 == 9 or t == count - 1:
            check_state(bandit)
            for name in ("ordinary", "any magnitude", "an id", "largest", "zeros") if dim < 100 else ("largest",):
                check_decisions(bandit, FEATURES[name](rng, dim))
            check_decisions(bandit, arms)


def divisible(policy: Policy, dim: int) -> int:
    """Return the number of features, as a multiple of the block length of LinUcbDisjoint."""
    return dim * policy.context_dim if isinstance(policy, LinUcbDisjoint) else dim


SETTINGS: dict[str, Policy] = {
    "ecolog by theory": Ecolog(exploration=None),
    "epsilon-greedy with a ridge": EpsilonGreedy(ridge=1e-6),
    "glb-omd by theory": GlbOmd(exploration=None),
    "glm-fpl without a ridge": GlmFpl(ridge=0.0),
    "glm-ucb by theory": GlmUcb(exploration=None, warm_up=3),
    "gloc by theory": Gloc(exploration=None, bound=0.1),
    "gloc-ts by theory": GlocTs(exploration=None, bound=0.1),
    "laplace-ts with a weak prior": LaplaceTs(prior_precision=1e-9),
    "lin-ts by theory": LinTs(exploration=None),
    "lin-ucb with a weak prior": LinUcb(prior_precision=1e-9),
    "lin-ucb with a strong prior": LinUcb(prior_precision=1e9),
    "ofuglb-e by theory": OfuglbE(exploration=None),
    "online-laplace with a weak prior": OnlineLaplace(prior_precision=1e-9),
    "optimist with a half-life": Optimist(half_life=50, floor=0.1),
    "rs-glincb with few warm-up rewards": RsGlincb(threshold=1e3, growth=1.1),
    "sgd-ts in a large ball": SgdTs(block_length=8, radius=1e9, step=100.0, draw="candidates", candidates=3),
    "sgd-ts in a small ball": SgdTs(block_length=8, radius=1e-9, ridge=1.0),
    "ucb-glm without a warm-up": UcbGlm(warm_up=0),
}
"""Settings that change the numerics, beside those of VARIANTS."""


def cases(table: dict[str, Any]) -> dict[str, Policy]:
    """Return each policy, and with the other links if its name is that of a policy without settings."""
    found = {}
    for name, policy in shorter(table).items():
        found[name] = policy
        if "link" in settings_of(policy) and name in POLICIES:
            for link in ("identity", "logistic", "probit", "log"):
                if allows(policy, link) and link != find_link(policy.link).name:
                    found[f"{name} {link}"] = replace(policy, link=link)
    return found


def shorter(table: dict[str, Any]) -> dict[str, Any]:
    """Return the policies with short warm-ups and blocks, so that few rounds use all code."""
    changes = {"warm_up": (20, 3), "block_length": (20, 8)}
    return {
        name: replace(policy, **{key: new for key, (old, new) in changes.items() if getattr(policy, key, None) == old})
        for name, policy in table.items()
    }


def long_runs(table: dict[str, Policy]) -> list[Any]:
    """Return parameters for long runs. CI runs those of the default policy; the others take an hour."""
    return [
        pytest.param(policy, id=name, marks=pytest.mark.statistics if policy.name == "optimist" else pytest.mark.slow)
        for name, policy in table.items()
    ]


DENSE = cases(VARIANTS | SETTINGS)
SPARSE = cases(FORMS)
SPARSE_NAMES = {name for name, kind in POLICIES.items() if kind().sparse_implementation(1) is not None}
WIDE = {name: policy for name, policy in DENSE.items() if name in POLICIES and not policy.keeps_history}


@pytest.mark.parametrize("policy", named(DENSE))
def test_any_numbers_leave_a_usable_state(policy: Policy) -> None:
    for seed, (dim, count) in enumerate([(1, 10), (2, 10), (8, 9)]):
        obey(policy, divisible(policy, dim), count, seed)


@pytest.mark.parametrize("policy", named(SPARSE))
def test_any_numbers_leave_a_usable_sparse_state(policy: Policy) -> None:
    for seed, (dim, count) in enumerate([(1, 10), (8, 20)]):
        obey(policy, divisible(policy, dim), count, seed, sparse=True)


@pytest.mark.parametrize("policy", named(WIDE))
def test_any_numbers_in_many_dimensions_leave_a_usable_state(policy: Policy) -> None:
    obey(policy, 130, 2, 1)


@pytest.mark.usefixtures("compiled_now")
@pytest.mark.parametrize("dim", [1, 2, 8, 130])
@pytest.mark.parametrize("policy", long_runs(DENSE))
def test_long_runs_of_any_numbers_leave_a_usable_state(policy: Policy, dim: int) -> None:
    dim, count = divisible(policy, dim), 30 if dim == 130 else 100
    for seed, sizes in enumerate([None, *FEATURES]):
        obey(policy, dim, count, 100 + seed, sizes=sizes)


@pytest.mark.usefixtures("compiled_now")
@pytest.mark.parametrize("dim", [1, 2, 8, 130])
@pytest.mark.parametrize("policy", long_runs(SPARSE))
def test_long_runs_of_any_numbers_leave_a_usable_sparse_state(policy: Policy, dim: int) -> None:
    for seed, sizes in enumerate([None, *FEATURES]):
        obey(policy, divisible(policy, dim), 100, 100 + seed, sizes=sizes, sparse=True)


def test_table_has_all_policies() -> None:
    assert {policy.name for policy in DENSE.values()} == set(POLICIES)
    assert {policy.name for policy in SPARSE.values()} == SPARSE_NAMES
