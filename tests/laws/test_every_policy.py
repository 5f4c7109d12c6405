"""Properties that every policy must have. A new policy is tested once it is in POLICIES."""

from collections.abc import Collection
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, EpsilonGreedy, InvalidInput, Optimist, Policy, SgdTs
from glbandits.bandit.law_check import law_name
from glbandits.bandit.policy_laws import (
    LAWS,
    machine_code_equals_plain_python,
    numbers_of_any_size_leave_a_usable_state,
    probabilities_match_choices,
)
from glbandits.bandit.policy_trials import Subject
from glbandits.lab import Synthetic, simulate
from glbandits.lab.simulation.play_recipes import play_entry
from glbandits.maths.links import find_link
from glbandits.maths.philox import generator
from glbandits.policies import POLICIES, GlbOmd, GlmUcb, LinUcbDisjoint, OfuglbE, OnlineLaplace, PgTs, SupCbGlm
from glbandits.policies.contract import settings_of

HORIZON = 64
COMPILED = ("lin-ucb", "greedy")
"""Policies whose `choose` and `learn` `make check` compiles; `make test-slow` compiles those of the others.

One of them keeps its state in place, the other one stores observations, so that its state grows."""
PROBLEM = Synthetic(dim=3, arms=9, fewest_arms=1)


def short(kind: Any, **settings: Any) -> Policy:
    """Create a policy with a short warm-up. Settings that the policy does not have are ignored."""
    wanted = {"link": "logistic", "block_length": 20, "warm_up": 20} | settings
    policy: Policy = kind(**{name: value for name, value in wanted.items() if name in settings_of(kind())})
    return policy


VARIANTS = {
    **{name: short(kind) for name, kind in POLICIES.items()},
    "online-laplace ucb": OnlineLaplace(rule="ucb"),
    "online-laplace ts": OnlineLaplace(rule="ts"),
    "sgd-ts decision": SgdTs(block_length=20, draw="decision", exploration_a1=0.5),
    "sgd-ts candidates": SgdTs(block_length=20, draw="candidates", candidates=8, floor=0.1, exploration_a1=0.5),
    "sgd-ts floor": SgdTs(block_length=20, floor=0.3),
    "glb-omd in a small ball": GlbOmd(bound=0.3),
    "glm-ucb in a small ball": GlmUcb(bound=0.3, warm_up=20),
    "lin-ucb-disjoint with one block": LinUcbDisjoint(context_dim=3),
    "ofuglb-e in a small ball": OfuglbE(bound=0.3),
    "optimist that forgets": Optimist(half_life=30, floor=0.2),
    "optimist that forgets soon": Optimist(half_life=1),
    "optimist that forgets after changes": Optimist(half_life="auto", floor=0.2),
    "optimist without correlations": Optimist(covariance="diagonal"),
    "epsilon-greedy online": EpsilonGreedy(fit="online"),
    "pg-ts with three sweeps": PgTs(sweeps=3),
    "supcb-glm in many stages": SupCbGlm(exploration=1.0, horizon=64, warm_up=20),
}


def allows(policy: Any, link: str) -> bool:
    """Whether a policy accepts this link."""
    try:
        return bool(replace(policy, link=link).link == link)
    except InvalidInput:
        return False


def named(variants: dict[str, Policy], fast: Collection[str] | None = None) -> list[Any]:
    """Parameters with the names of the variants. tests/conftest.py reads the policy from the name.

    If `fast` is given, all others are slow.
    """
    return [
        pytest.param(policy, id=name, marks=() if fast is None or name in fast else pytest.mark.slow)
        for name, policy in variants.items()
    ]


every_policy = pytest.mark.parametrize("policy", named(VARIANTS))


def drive(bandit: Bandit, seed: int) -> list[int]:
    """Run the problem through the online API, and return the choices."""
    choices: list[int] = []
    for block in PROBLEM.rounds(HORIZON, seed):
        for t in range(len(block)):
            arms = block.arms[t, : block.counts[t]]
            arm = bandit.choose(arms)
            bandit.learn(arms[arm], PROBLEM.noise.reward(block.expected[t, arm], block.noise[t]))
            choices.append(arm)
    return choices


@cache
def learned(policy: Policy, rounds: int) -> Bandit:
    """Return a bandit that has learned some rewards. Tests must not change it."""
    bandit, rng = Bandit(policy, dim=3, seed=5), np.random.default_rng(5)
    for _ in range(rounds):
        arms = rng.uniform(-0.6, 0.6, (6, 3))
        arm = bandit.choose(arms)
        bandit.learn(arms[arm], float(rng.random() < 0.5))
    return bandit


def exercised(policy: Policy, rounds: int = 60) -> Bandit:
    """Return a new bandit that has learned some rewards."""
    return learned(policy, rounds).copy()


every_law = pytest.mark.parametrize(
    "law",
    [
        pytest.param(law, id=law_name(law), marks=pytest.mark.statistics if law is probabilities_match_choices else ())
        for law in LAWS
        if law not in (machine_code_equals_plain_python, numbers_of_any_size_leave_a_usable_state)
    ],
)
"""The others have tests of their own, the second one in test_any_numbers.py."""


@every_policy
@every_law
def test_policy_obeys_the_law(policy: Policy, law: Any) -> None:
    law(Subject(policy, 3))


@pytest.mark.usefixtures("compiled_now")
@pytest.mark.safety
@pytest.mark.parametrize("policy", named(VARIANTS, COMPILED))
def test_machine_code_equals_plain_python(policy: Policy) -> None:
    machine_code_equals_plain_python(Subject(policy, 3))


@pytest.mark.safety
@every_policy
def test_compiled_and_plain_runs_make_the_same_choices(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("GLBANDITS_COMPILE", "now")
        compiled = simulate(policy, PROBLEM, HORIZON, [11, 12], jobs=2)
    plain = simulate(policy, PROBLEM, HORIZON, [12], jobs=1, compiled=False)
    assert compiled.choices is not None
    assert plain.choices is not None
    np.testing.assert_array_equal(compiled.choices[1], plain.choices[0])
    np.testing.assert_array_equal(compiled.regret[1], plain.regret[0])
    np.testing.assert_array_equal(compiled.choices[0], drive(Bandit(policy, dim=3, seed=11), 11))


def test_estimated_probabilities_have_independent_errors() -> None:
    bandit = exercised(VARIANTS["sgd-ts decision"])
    arms = np.random.default_rng(8).uniform(-0.6, 0.6, (5, 3))
    estimates = []
    for _ in range(50):
        estimates.append(bandit.probabilities(arms, draws=1000))
        bandit.choose(arms)
    p = np.mean(estimates, axis=0)
    spread = np.std(estimates, axis=0)[p > 0.1]
    # The standard deviation of 50 independent estimates has a relative error of 10 %; half of it is five such errors.
    assert (spread > 0.5 * np.sqrt(p * (1 - p) / 1000)[p > 0.1]).all()


@pytest.mark.safety
@every_policy
def test_state_stops_growing_with_fixed_arms(policy: Policy) -> None:
    problem = Synthetic(dim=3, arms=9, fewest_arms=1, fixed_arms=policy.keeps_history)
    play = play_entry(policy.implementation(3), find_link(policy.link), problem.noise, compiled=True)
    state, rng, sizes = policy.init(3), generator(1), []
    for block in problem.rounds(4000 if policy.keeps_history else 100_000, seed=1):
        regret, choices = np.empty(len(block)), np.empty(len(block), dtype=np.int64)
        rounds = (block.rows, block.starts, block.counts, block.expected, block.payoffs, block.best())
        noise = problem.noise.number, block.noise
        state = play(state, policy.packed_settings(3), rng, *rounds, *noise, 0.0, choices, regret)
        sizes.append(state.size)
    # A policy that stores observations stores each of the fixed arms once, in each of its separate sets of rewards.
    assert sizes[-1] == sizes[0]
    assert sizes[-1] <= (2 if policy.keeps_history else 1) * exercised(policy, rounds=60).state.size


def with_link(policy: Any, link: str) -> Policy:
    """Return the policy with another link. Skips the test if the policy rejects the link."""
    if not allows(policy, link):
        with pytest.raises(InvalidInput, match=f"got <{link} link>"):
            replace(policy, link=link)
        pytest.skip(f"{policy.name} refuses the {link} link, as it should")
    other: Policy = replace(policy, link=link)
    return other


other_links = pytest.mark.parametrize("link", ["identity", "probit", "log"])
policies_with_links = pytest.mark.parametrize(
    "policy", named({n: p for n, p in VARIANTS.items() if "link" in settings_of(p) and n in POLICIES})
)


@pytest.mark.slow  # tests/maths/test_links.py compares the functions of every link, compiled and not
@other_links
@policies_with_links
def test_compiled_runs_equal_plain_runs_under_all_links(policy: Any, link: str) -> None:
    other, problem = with_link(policy, link), Synthetic(dim=3, arms=5, link=link)
    compiled, plain = (simulate(other, problem, 120, [1], compiled=compiled).choices for compiled in (True, False))
    assert compiled is not None
    assert plain is not None
    np.testing.assert_array_equal(compiled, plain)


@pytest.mark.parametrize("name", POLICIES)
def test_policy_has_a_theory_page(name: str) -> None:
    page = Path(__file__).parents[2] / "docs/theory" / f"{POLICIES[name].info.page or name}.md"
    assert "policies/" in page.read_text(encoding="utf-8")  # the page must name the file of the code


@pytest.mark.parametrize("name", [name for name, kind in POLICIES.items() if "bound" in settings_of(kind())])
def test_any_accepted_bound_makes_a_bandit(name: str) -> None:
    for link in ("logistic", "probit"):  # of which the slopes vanish at 300
        bandit = Bandit(short(POLICIES[name], link=link, bound=300.0), 3, seed=1)
        bandit.learn([1.0, 0.5, 0.0], 1.0)
        assert bandit.choose(np.eye(3)) in range(3)
