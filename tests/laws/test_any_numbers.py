"""Any numbers that `learn` accepts leave a state that is valid, can be loaded, and makes decisions.

Hostile or careless clients send ids, timestamps, sums of money and physical units in the same row. A Bandit accepts
numbers up to MAX_ABS, so every policy must bear them: its decisions may be poor, but its state must stay usable.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from glbandits import Bandit, EpsilonGreedy, LinUcb, Optimist, Policy, SgdTs
from glbandits.bandit.policy_laws import play_any_numbers
from glbandits.bandit.policy_trials import ANY_NUMBERS, Subject
from glbandits.common.arrays import Floats
from glbandits.maths.links import find_link
from glbandits.policies import (
    POLICIES,
    DomdGlb,
    GlbOmd,
    GlmFpl,
    Gloc,
    GlocTs,
    LaplaceTs,
    LinUcbDisjoint,
    OnlineLaplace,
    RsGlincb,
    SupCbGlm,
    UcbGlm,
)
from glbandits.policies.algorithms.lin_ucb_disjoint import blocks_at
from glbandits.policies.algorithms.supcb_glm import STAGE, stage_size, stages_at
from glbandits.policies.contract import settings_of
from glbandits.policies.shared.half_life_selection import main_copy
from glbandits.policies.shared.posterior_scores import score_moments
from tests.laws.test_every_policy import VARIANTS, allows, named
from tests.laws.test_sparse_policies import FORMS

pytestmark = pytest.mark.filterwarnings("ignore::glbandits.OutlierWarning")


def variances(bandit: Bandit) -> Floats:
    """Return variances of coefficients, or of linear functions of them. Empty if the state has none."""
    policy, state, dim = bandit.policy, bandit.state, bandit.dim
    if bandit.sparse:
        return np.empty(0)
    if isinstance(policy, Optimist):
        state = main_copy(state) if policy.half_life == "auto" else state
        out = np.empty(dim)
        score_moments(state, np.eye(dim), np.empty(dim), out)
        return out
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


def obey(policy: Policy, dim: int, count: int, seed: int, *, sizes: str | None = None, sparse: bool = False) -> None:
    """Assert the law for a sequence of numbers, and that variances are finite and at least 0."""
    for bandit in play_any_numbers(Subject(policy, dim, sparse), count, seed, sizes):
        spread = variances(bandit)
        assert (np.isfinite(spread) & (spread >= 0.0)).all(), spread


def divisible(policy: Policy, dim: int) -> int:
    """Return the number of features, as a multiple of the block length of LinUcbDisjoint."""
    return dim * policy.context_dim if isinstance(policy, LinUcbDisjoint) else dim


SETTINGS: dict[str, Policy] = {
    "domd-glb that forgets soon": DomdGlb(half_life=1.0),
    "epsilon-greedy with a ridge": EpsilonGreedy(ridge=1e-6),
    "glb-omd with long steps": GlbOmd(step=10.0, prior_precision=0.1),
    "glm-fpl without a ridge": GlmFpl(ridge=0.0),
    "gloc in a small ball": Gloc(bound=0.1),
    "gloc-ts in a small ball": GlocTs(bound=0.1),
    "laplace-ts with a weak prior": LaplaceTs(prior_precision=1e-9),
    "lin-ucb with a weak prior": LinUcb(prior_precision=1e-9),
    "lin-ucb with a strong prior": LinUcb(prior_precision=1e9),
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
    for seed, sizes in enumerate([None, *ANY_NUMBERS]):
        obey(policy, dim, count, 100 + seed, sizes=sizes)


@pytest.mark.usefixtures("compiled_now")
@pytest.mark.parametrize("dim", [1, 2, 8, 130])
@pytest.mark.parametrize("policy", long_runs(SPARSE))
def test_long_runs_of_any_numbers_leave_a_usable_sparse_state(policy: Policy, dim: int) -> None:
    for seed, sizes in enumerate([None, *ANY_NUMBERS]):
        obey(policy, divisible(policy, dim), 100, 100 + seed, sizes=sizes, sparse=True)


def test_table_has_all_policies() -> None:
    assert {policy.name for policy in DENSE.values()} == set(POLICIES)
    assert {policy.name for policy in SPARSE.values()} == SPARSE_NAMES
