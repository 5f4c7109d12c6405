"""Properties that every policy must have. A new policy is tested once it is in POLICIES."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glbandits import (
    POLICIES,
    Bandit,
    Ecolog,
    EpsilonGreedy,
    GlbOmd,
    GlmUcb,
    InvalidInput,
    LinUcb,
    LinUcbDisjoint,
    OfuglbE,
    OnlineLaplace,
    Optimist,
    PgTs,
    Policy,
    SgdTs,
    SupCbGlm,
)
from glbandits.common.arrays import Floats
from glbandits.lab import Synthetic, simulate
from glbandits.lab.simulation.play_recipes import play_entry
from glbandits.maths.links import LinkFunctions, find_link
from glbandits.maths.philox import generator
from glbandits.policies.contract import rebuild, settings_of
from glbandits.policies.contract.compiled_calls import policy_functions

HORIZON = 64
TRIALS = 1500
"""Draws for an estimated probability."""
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
    "ecolog that needs its warm-up set": Ecolog(prior_precision=0.01, exploration=None, step=None, bound=5.0),
    "glb-omd in a small ball": GlbOmd(bound=0.3, exploration=None),
    "glm-ucb in a small ball": GlmUcb(bound=0.3, exploration=None, warm_up=20),
    "lin-ucb by theory": LinUcb(exploration=None),
    "lin-ucb-disjoint with one block": LinUcbDisjoint(context_dim=3),
    "ofuglb-e in a small ball": OfuglbE(bound=0.3, exploration=None),
    "optimist that forgets": Optimist(half_life=30, floor=0.2),
    "optimist that forgets soon": Optimist(half_life=1),
    "optimist that selects its half-life": Optimist(half_life="auto", floor=0.2),
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


def drive(
    bandit: Bandit, seed: int, save_at: Sequence[int] = (), folder: Path | None = None
) -> tuple[list[int], Bandit]:
    """Run the problem through the online API. Save and load the bandit after the rounds of `save_at`."""
    choices: list[int] = []
    for block in PROBLEM.rounds(HORIZON, seed):
        for t in range(len(block)):
            arms = block.arms[t, : block.counts[t]]
            arm = bandit.choose(arms)
            bandit.learn(arms[arm], PROBLEM.noise.reward(block.expected[t, arm], block.noise[t]))
            choices.append(arm)
            if t in save_at and folder is not None:
                bandit.save(folder / "model.safetensors")
                bandit = Bandit.load(folder / "model.safetensors")
    return choices, bandit


@cache
def driven(policy: Policy) -> tuple[list[int], Bandit]:
    """Return the choices of a bandit with seed 11, and the bandit. Tests must not change it."""
    return drive(Bandit(policy, dim=3, seed=11), 11)


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
    np.testing.assert_array_equal(compiled.choices[0], driven(policy)[0])


@pytest.mark.usefixtures("compiled_now")
@pytest.mark.safety
@pytest.mark.parametrize("policy", named(VARIANTS, COMPILED))
def test_compiled_choose_and_learn_equal_plain_ones(policy: Policy) -> None:
    bandit = Bandit(policy, dim=3, seed=11)
    bandit._choose.compiled()
    bandit._learn.compiled()
    plain = simulate(policy, PROBLEM, HORIZON, [11], jobs=1, compiled=False)
    assert plain.choices is not None
    np.testing.assert_array_equal(drive(bandit, 11)[0], plain.choices[0])


@every_policy
def test_loaded_bandit_continues_identically(policy: Policy, tmp_path: Path) -> None:
    straight, undisturbed = driven(policy)
    broken, loaded = drive(Bandit(policy, dim=3, seed=11), 11, save_at=(0, 19, 47), folder=tmp_path)
    assert straight == broken
    np.testing.assert_array_equal(undisturbed.state, loaded.state)


@every_policy
def test_learning_a_batch_equals_learning_row_by_row(policy: Policy) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-0.5, 0.5, (53, 3)), rng.integers(0, 2, 53).astype(float)
    first, second = Bandit(policy, dim=3, seed=4), Bandit(policy, dim=3, seed=4)
    for x, reward in zip(X, y, strict=True):
        first.learn(x, reward)
    second.learn_batch(X, y)
    np.testing.assert_array_equal(first.state, second.state)


@pytest.mark.statistics
@every_policy
@pytest.mark.parametrize("rounds", [10, 60])
def test_probabilities_match_frequencies_of_choices(policy: Policy, rounds: int) -> None:
    bandit, draws = exercised(policy, rounds), 750
    arms = np.random.default_rng(8).uniform(-0.6, 0.6, (5, 3))
    stated = bandit.probabilities(arms, draws=TRIALS)
    assert stated.sum() == pytest.approx(1.0, abs=1e-12)
    seen = np.bincount([bandit.choose(arms) for _ in range(draws)], minlength=5) / draws
    # Five standard errors for each arm, including those of estimated probabilities: 5 arms and 80 cases exceed that in
    # one of 5,000 seed sets. Probabilities close to 0 and 1 get the standard error of one success.
    functions = LinkFunctions(*(getattr(find_link(policy.link), part) for part in LinkFunctions._fields))
    _, _, probabilities, unpack, _ = policy_functions(policy.implementation(3))
    exact = probabilities(bandit.state, unpack(policy.packed_settings(3)), arms, functions, np.empty(5))
    p = stated if exact else (TRIALS * stated + 1) / (TRIALS + 2)
    margin = 5 * np.sqrt(p * (1 - p) * (1 / draws + (0 if exact else 1 / TRIALS)))
    assert (np.abs(seen - stated) <= margin + 1e-12).all(), (stated, seen)


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


@every_policy
def test_computing_probabilities_changes_no_decision(policy: Policy) -> None:
    first, second = exercised(policy), exercised(policy)
    arms = np.random.default_rng(9).uniform(-0.6, 0.6, (5, 3))
    first.probabilities(arms, draws=100)
    assert [first.choose(arms) for _ in range(20)] == [second.choose(arms) for _ in range(20)]
    np.testing.assert_array_equal(first.state, second.state)


@every_policy
def test_choosing_does_not_change_the_state(policy: Policy) -> None:
    bandit = exercised(policy)
    before = bandit.state
    bandit.choose(np.eye(3))
    np.testing.assert_array_equal(bandit.state, before)


def hard_rewards() -> dict[str, Floats]:
    """More rewards than the warm-up of 20, so that every policy also chooses by what it has learned."""
    return {"all zero": np.zeros(36), "all one": np.ones(36), "alternating": np.resize([0.0, 1.0], 36)}


@every_policy
@pytest.mark.parametrize("rewards", hard_rewards().values(), ids=hard_rewards())
@pytest.mark.parametrize(
    "arms",
    [np.ones((1, 3)), np.zeros((4, 3)), np.tile([0.3, -0.2, 0.1], (6, 1)), np.vstack([np.eye(3), np.zeros(3)])],
    ids=["one arm", "zero features", "equal arms", "fixed arms and a zero one"],
)
def test_hard_problems_leave_a_finite_state(policy: Policy, rewards: Floats, arms: Floats) -> None:
    bandit = Bandit(policy, dim=3, seed=3)
    for reward in rewards:
        arm = bandit.choose(arms)
        assert 0 <= arm < len(arms)
        bandit.learn(arms[arm], reward)
    assert np.isfinite(bandit.state).all()
    assert bandit.probabilities(arms, draws=50).sum() == pytest.approx(1.0)


@every_policy
@pytest.mark.parametrize("size", [1e-6, 1e3, 1e6])
def test_features_of_any_size_leave_a_valid_state(policy: Policy, size: float, tmp_path: Path) -> None:
    bandit, rng = Bandit(policy, dim=3, seed=3), np.random.default_rng(3)
    fixed = size * rng.uniform(-1, 1, (4, 3))
    for t in range(60):
        arms = fixed if t % 2 else size * rng.uniform(-1, 1, (4, 3))
        arm = bandit.choose(arms)
        bandit.learn(arms[arm], float(rng.random() < 0.5))
    assert np.isfinite(bandit.state).all()
    bandit.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(Bandit.load(tmp_path / "model.safetensors").state, bandit.state)


@every_policy
def test_separable_data_leaves_a_finite_state(policy: Policy) -> None:
    bandit, rng = Bandit(policy, dim=3, seed=3), np.random.default_rng(3)
    for _ in range(60):
        x = rng.uniform(-1, 1, 3)
        bandit.learn(x, float(x[0] > 0))
    assert np.isfinite(bandit.state).all()


@every_policy
def test_settings_survive_conversion_to_plain_values(policy: Policy) -> None:
    assert rebuild(type(policy), settings_of(policy)) == policy


@pytest.mark.safety
@every_policy
def test_state_stops_growing_with_fixed_arms(policy: Policy) -> None:
    problem = Synthetic(dim=3, arms=9, fewest_arms=1, fixed_arms=policy.keeps_history)
    play = play_entry(policy.implementation(3), find_link(policy.link), problem.noise, compiled=True)
    state, rng, sizes = policy.init(3), generator(1), []
    for block in problem.rounds(4000 if policy.keeps_history else 100_000, seed=1):
        regret, choices = np.empty(len(block)), np.empty(len(block), dtype=np.int64)
        rounds = (block.rows, block.starts, block.counts, block.expected, block.values, block.best(), block.noise)
        state = play(state, policy.packed_settings(3), rng, *rounds, 0.0, choices, regret)
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


@other_links
@policies_with_links
def test_large_features_leave_a_finite_state_under_all_links(policy: Any, link: str) -> None:
    policy, link_object = with_link(policy, link), find_link(link)
    functions = LinkFunctions(link_object.mean, link_object.slope, link_object.antiderivative)
    _, learn, _, unpack, _ = policy_functions(policy.implementation(3))
    state, settings = policy.init(3), unpack(policy.packed_settings(3))
    rng, draws = np.random.default_rng(3), generator(3)
    with np.errstate(all="ignore"):
        for reward in rng.integers(0, 2 if link == "probit" else 9, 40):
            state = learn(state, settings, 1e3 * rng.uniform(-1, 1, 3), float(reward), draws, functions)
    assert np.isfinite(state).all()


@pytest.mark.slow  # tests/maths/test_links.py compares the functions of every link, compiled and not
@other_links
@policies_with_links
def test_compiled_runs_equal_plain_runs_under_all_links(policy: Any, link: str) -> None:
    other, problem = with_link(policy, link), Synthetic(dim=3, arms=5, link=link)
    compiled, plain = (simulate(other, problem, 120, [1], compiled=compiled).choices for compiled in (True, False))
    assert compiled is not None
    assert plain is not None
    np.testing.assert_array_equal(compiled, plain)


@every_policy
def test_impossible_state_is_invalid(policy: Policy) -> None:
    for rounds in (5, 60):
        state = exercised(policy, rounds).state
        assert policy.is_valid_state(state, 3)
        assert not policy.is_valid_state(state[np.newaxis], 3)
        assert not policy.is_valid_state(state[:-1], 3)
        assert not policy.is_valid_state(np.append(state, 0.0), 3)
        for position in range(state.size):
            for wrong in (np.nan, np.inf):
                broken = state.copy()
                broken[position] = wrong
                assert not policy.is_valid_state(broken, 3)


@pytest.mark.parametrize("name", POLICIES)
def test_grid_has_valid_settings(name: str) -> None:
    kind: Any = POLICIES[name]
    for setting, values in POLICIES[name].grid.items():
        for value in values:
            assert settings_of(kind(**{setting: value}))[setting] == value


@pytest.mark.parametrize("name", POLICIES)
def test_policy_has_a_theory_page(name: str) -> None:
    page = Path(__file__).parents[2] / "docs/theory" / f"{POLICIES[name].info.page or name}.md"
    assert "policies/" in page.read_text(encoding="utf-8")  # the page must name the file of the code
