"""The laws that every policy must obey. `check_policy` tests a policy of your own by them.

A law is a function of a `Subject`. It raises InvalidInput if the policy breaks the law. `tests/laws` tests the policies
of this package by the same functions.
"""

import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from glbandits.bandit.bandit import Bandit
from glbandits.bandit.inputs import Inputs
from glbandits.bandit.policy_trials import (
    ANY_NUMBERS,
    Subject,
    TrialStep,
    any_rounds,
    counts_agree,
    hard_problems,
    numbers_text,
)
from glbandits.common.arrays import Floats
from glbandits.common.errors import GlbanditsError, InvalidInput, value_text
from glbandits.compilation.code_digest import digest_of_code
from glbandits.compilation.entry_point import compile_mode
from glbandits.maths.links import find_link
from glbandits.maths.philox import generator
from glbandits.policies.contract import declared_settings, rebuild, settings_of
from glbandits.policies.contract.compiled_calls import policy_functions
from glbandits.policies.contract.decisions import has_scores
from glbandits.policies.contract.policy_checks import random_source_of

DRAWS = 2000
"""Decisions that are compared with exact probabilities."""
USE_RNG = (
    "Draw random numbers only from `rng`, by the functions of glbandits.maths.philox: uniform, normal, any_index, "
    "add_normals."
)
KEEP_FINITE = (
    "Do not divide by a number that can be 0, and limit a step before it overflows, for example by project_to_ball of "
    "glbandits.maths.vectors."
)


def same_seed_same_choices(subject: Subject) -> None:
    """Two Bandits with the same seed make the same choices and learn the same state."""
    runs: list[list[tuple[int, bytes]]] = [[], []]
    for run in runs:
        bandit = subject.bandit()
        for arms, reward in subject.trial():
            arm = bandit.choose(arms)
            bandit.learn(arms, reward, arm=arm)
            run.append((arm, bandit.state.tobytes()))
    for t, ((arm, state), (other, other_state)) in enumerate(zip(*runs, strict=True)):
        if arm != other or state != other_state:
            what = "learn different states" if arm == other else f"choose arms {arm} and {other}"
            raise InvalidInput(
                f"two Bandits with the same seed and input {what} in round {t + 1}. {USE_RNG} Keep all that is learned "
                "in the state."
            )


def random_numbers_come_from_rng(subject: Subject) -> None:
    """No function of the policy uses np.random, random, secrets or a clock, even in code that trials do not reach."""
    functions = policy_functions(subject.form.implementation(subject.dim))
    for name in ("choose", "learn", "probabilities"):
        function = getattr(functions, name)
        for reached in (function, *digest_of_code(function).functions):
            source = random_source_of(reached)
            if source is not None:
                code = reached.__code__
                raise InvalidInput(
                    f"{name} uses {source}, in {reached.__name__} in line {code.co_firstlineno} of {code.co_filename}. "
                    f"{USE_RNG}"
                )


def learning_leaves_a_valid_state(subject: Subject) -> None:
    """One arm, equal arms, many arms, separable rewards and features of many sizes leave a finite, valid state."""
    for name, rounds in hard_problems(subject.dim, subject.rewards):
        bandit = subject.bandit(seed=3)
        size = bandit.state.size
        for t, (arms, reward) in enumerate(rounds):
            arm = bandit.choose(arms)
            bandit.learn(arms, reward, arm=arm)
            step = TrialStep(t + 1, arms[arm], reward, f" of {name}")
            check_state(subject, bandit, step)
            if not (subject.sparse or subject.policy.keeps_history) and bandit.state.size > size:
                raise InvalidInput(
                    f"the state has {bandit.state.size} numbers {step}, and had {size} at first. Declare what learn "
                    "writes in the layout, or declare a history of observations."
                )
        check_decision(bandit, arms, f"after {t + 1} rewards of {name}")


def numbers_of_any_size_leave_a_usable_state(subject: Subject) -> None:
    """Features and rewards from 1e-300 to 1e50 leave a valid state that makes decisions."""
    for seed in range(3):
        for _ in play_any_numbers(subject, 20, seed):
            pass


def play_any_numbers(subject: Subject, count: int, seed: int, sizes: str | None = None) -> Iterator[Bandit]:
    """Play rounds of `any_rounds`. Yields the Bandit, after checks of its state and decisions, in every tenth round."""
    bandit, rng = subject.bandit(seed), np.random.default_rng(seed)
    for t, (arms, reward) in enumerate(any_rounds(find_link(subject.policy.link), subject.dim, count, seed, sizes)):
        arm = bandit.choose(arms) if t % 2 else int(rng.integers(len(arms)))
        bandit.learn(arms, reward, arm=arm)
        if not np.isfinite(bandit._state).all() or t % 10 == 9 or t == count - 1:
            check_state(subject, bandit, TrialStep(t + 1, arms[arm], reward))
            Bandit.from_bytes(bandit.to_bytes(), subject.policy)
            for name in ("ordinary", "any magnitude", "an id", "largest", "zeros") if subject.dim < 100 else ():
                check_decision(bandit, ANY_NUMBERS[name](rng, subject.dim), f"after reward {t + 1}")
            check_decision(bandit, arms, f"after reward {t + 1}")
            yield bandit


_are_same = partial(np.array_equal, equal_nan=True)  # other laws report NaN


def check_state(subject: Subject, bandit: Bandit, step: TrialStep) -> None:
    """Raise InvalidInput if the state is not finite or not valid."""
    state, form = bandit._state, subject.form
    finite = np.isfinite(state)
    if not finite.all():
        index = int(np.flatnonzero(~finite)[0])
        parts = {} if subject.sparse else form.layout.parts(state, subject.dim)
        part = next((f" in {name!r}" for name, values in parts.items() if not np.isfinite(values).all()), "")
        raise InvalidInput(f"the state has {state[index]} at index {index}{part} {step}. {KEEP_FINITE}")
    if not form.is_valid_state(state, subject.dim):
        raise InvalidInput(
            f"is_valid_state rejects the state of {state.size} numbers {step}, so it cannot be saved. Every part must "
            "stay as the layout declares it: its size, whole numbers for counts, positive diagonals."
        )


def check_decision(bandit: Bandit, arms: Floats, where: str) -> None:
    """Raise InvalidInput if probabilities are negative or do not sum to 1, or `choose` returns no index."""
    probabilities = bandit.probabilities(arms, draws=5)
    if not ((probabilities >= 0.0).all() and abs(probabilities.sum() - 1.0) < 1e-9):
        raise InvalidInput(
            f"probabilities must be at least 0 and sum to 1; got {numbers_text(probabilities)} {where}, for arms "
            f"{numbers_text(arms)}."
        )
    bandit.copy().choose(arms)


def choosing_changes_nothing(subject: Subject) -> None:
    """`choose` and `probabilities` leave state and arms as they are; probabilities do not change later choices."""
    bandit = subject.learned()
    asked, state, before = bandit.copy(), bandit.state, np.random.default_rng(9).uniform(-0.6, 0.6, (5, subject.dim))
    arms = before.copy()
    for t in range(20):
        arm = bandit.choose(arms)
        if not _are_same(bandit.state, state):
            raise InvalidInput("choose changes the state. Compute in new arrays, and change the state in learn.")
        asked.probabilities(arms, draws=20)
        if not _are_same(asked.state, state):
            raise InvalidInput("probabilities changes the state. Compute in new arrays, and change the state in learn.")
        if asked.choose(arms) != arm:
            raise InvalidInput(f"calls of probabilities change choice {t + 1} after them. {USE_RNG}")
        if not _are_same(arms, before):
            raise InvalidInput("choose or probabilities changes the arms. Compute in new arrays.")
    x = before[0].copy()
    bandit.learn(x, subject.rewards[1])
    if not _are_same(x, before[0]):
        raise InvalidInput("learn changes the features x. Compute in new arrays.")


def saved_model_continues(subject: Subject) -> None:
    """A Bandit that is saved and loaded again and again makes the same choices as one that is not."""
    straight, loaded = subject.bandit(), subject.bandit()
    for t, (arms, reward) in enumerate(subject.trial()):
        if t in (0, 1, 20, subject.rounds - 10):
            loaded = Bandit.from_bytes(loaded.to_bytes(), subject.policy)
            loaded.warns_of_outliers = False
        arm, other = straight.choose(arms), loaded.choose(arms)
        straight.learn(arms, reward, arm=arm)
        loaded.learn(arms, reward, arm=other)
        if arm != other or not _are_same(straight.state, loaded.state):
            raise InvalidInput(
                f"a loaded model differs from the saved one in round {t + 1}. Keep all that is learned in the state."
            )


def batch_equals_single_rewards(subject: Subject) -> None:
    """Learning a batch gives the same state as learning its rewards one by one."""
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-0.5, 0.5, (subject.rounds, subject.dim)), rng.choice(subject.rewards, subject.rounds)
    single, batch = subject.bandit(), subject.bandit()
    for x, reward in zip(X, y, strict=True):
        single.learn(x, reward)
    batch.learn_batch(X, y)
    if not _are_same(single.state, batch.state):
        raise InvalidInput(
            f"a batch of {len(y)} rewards leaves another state than the same rewards one by one. {USE_RNG}"
        )


def probabilities_match_choices(subject: Subject) -> None:
    """Exact probabilities agree with the frequencies of choices."""
    arms = np.random.default_rng(8).uniform(-0.6, 0.6, (5, subject.dim))
    for rounds in (0, 10, subject.rounds):
        bandit = subject.learned(rounds)
        stated = bandit.exact_probabilities(arms)
        if stated is None:
            continue
        counts = np.bincount([bandit.choose(arms) for _ in range(DRAWS)], minlength=5).astype(float)
        if not counts_agree(counts, DRAWS * stated, DRAWS * stated * (1.0 - stated)):
            raise InvalidInput(
                f"probabilities wrote {numbers_text(stated)}, but the frequencies of {DRAWS:,} choices are "
                f"{numbers_text(counts / DRAWS)} after {rounds} rewards, for arms {numbers_text(arms)}. Correct the "
                "function, or return False from it."
            )


def rankings_begin_with_choices(subject: Subject) -> None:
    """The first arm of a ranking is the arm that `choose` would return. Not tested if the policy has no scores."""
    if not has_scores(subject.form.implementation(subject.dim)):
        return
    bandit = subject.bandit()
    for arms, reward in subject.trial():
        ranking, arm = bandit.copy().rank(arms, len(arms), draws=1), bandit.choose(arms)
        if ranking.arms[0] != arm:
            raise InvalidInput(
                f"choose returned arm {arm}, but the rule ranks arm {ranking.arms[0]} first, for arms "
                f"{numbers_text(arms)}. Leave choose out, or correct the rule."
            )
        bandit.learn(arms, reward, arm=arm)


def settings_are_validated(subject: Subject) -> None:
    """Wrong settings are refused, those of `grid` are accepted, and settings survive conversion to plain values."""
    policy: Any = subject.policy
    kind: Any = type(policy)
    for setting in declared_settings(kind):
        for wrong in (math.nan, object):
            try:
                replace(policy, **{setting.name: wrong})
            except GlbanditsError:
                continue
            raise InvalidInput(
                f"the setting {setting.name}={value_text(wrong)} is accepted. A __post_init__ of your own must "
                "begin with super().__post_init__()."
            )
    for name, values in kind.grid.items():
        if name not in settings_of(policy):
            raise InvalidInput(
                f"grid has {name!r}, which is not a setting. Settings: {', '.join(settings_of(policy))}."
            )
        for value in values:
            try:
                replace(policy, **{name: value})
            except GlbanditsError as error:
                raise InvalidInput(f"grid has a value that is not allowed: {error}.") from None
    if find_link(policy.link).built_in and rebuild(kind, settings_of(policy)) != policy:
        raise InvalidInput(f"{policy} is not equal to the policy made from its settings {settings_of(policy)}.")


def policy_can_be_pickled(subject: Subject) -> None:
    """The policy and a Bandit with it survive pickling, so that other processes can run them."""
    learned = subject.learned()
    try:
        policy, bandit = pickle.loads(pickle.dumps((subject.policy, learned)))
    except GlbanditsError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"the policy cannot be pickled, so no other process can run it: {error}. Define the class at the top level "
            "of a module, and custom links too."
        ) from error
    if policy != subject.policy or not _are_same(bandit.state, learned.state):
        raise InvalidInput("the policy changes when it is pickled. Keep all settings in annotated attributes.")


def impossible_states_are_refused(subject: Subject) -> None:
    """`is_valid_state` accepts learned states, and refuses damaged ones."""
    form, dim = subject.form, subject.dim
    for rounds in (5, None):
        state = subject.learned(rounds).state
        wrong = {"two axes": state[np.newaxis], "a number too few": state[:-1], "one too many": np.append(state, 0.0)}
        for index in range(0, state.size, 1 + state.size // 400):
            for value in (np.nan, np.inf):
                wrong[f"{value} at index {index}"] = np.where(np.arange(state.size) == index, value, state)
        for name, damaged in wrong.items():
            if form.is_valid_state(damaged, dim):
                raise InvalidInput(
                    f"is_valid_state accepts a state with {name}. Declare all parts in the layout, and in an override "
                    "begin with `self.layout.is_valid(state, dim)`."
                )


def machine_code_equals_plain_python(subject: Subject) -> None:
    """Compiled functions give the same bits as plain Python. Not tested if nothing may be compiled."""
    if compile_mode() == "never":
        return
    form, dim = subject.form, subject.dim
    inputs = Inputs(form.implementation(dim), find_link(subject.policy.link), dim)
    entries = (inputs.choose, inputs.probabilities(), inputs.learn)
    functions = ([entry.recipe.function for entry in entries], [entry.compiled() for entry in entries])
    states, rngs, settings = [form.init(dim), form.init(dim)], [generator(1), generator(1)], form.packed_settings(dim)
    for t, (arms, reward) in enumerate(subject.trial()):
        rows = inputs.arms(arms)
        results: list[dict[str, Any]] = []
        for i, (choose, probabilities, learn) in enumerate(functions):
            out = np.zeros(len(arms))
            with np.errstate(all="ignore"):
                exact = probabilities(states[i], settings, dim, inputs.packed(rows), out)
                arm = choose(states[i], settings, dim, inputs.packed(rows), rngs[i])
                x = inputs.packed_row(inputs.row(rows, arm))
                learned = learn(states[i], settings, dim, x, reward, rngs[i])
            states[i] = states[i] if learned is None else learned
            results.append({"probabilities": out if exact else None, "choose": arm, "learn": states[i], "rng": rngs[i]})
        for name, plain in results[0].items():
            compiled = results[1][name]
            if not np.array_equal(plain, compiled, equal_nan=name == "learn"):
                if name == "learn" and plain.shape == compiled.shape:
                    index = int(np.flatnonzero(plain != compiled)[0])
                    plain, compiled = float(plain[index]), f"{float(compiled[index])!r} at index {index}"
                raise InvalidInput(
                    f"machine code and plain Python differ in round {t + 1}: {name} gives {compiled} and {plain}. Add "
                    "numbers in the order of the index and write x * x for squares: use dot, norm and add_scaled of "
                    "glbandits.maths.vectors instead of np.dot, np.sum and **."
                )


NEEDS: dict[Callable[[Subject], None], Callable[[Subject], None]] = dict.fromkeys(
    (
        choosing_changes_nothing,
        saved_model_continues,
        batch_equals_single_rewards,
        policy_can_be_pickled,
        machine_code_equals_plain_python,
    ),
    same_seed_same_choices,
)
"""Laws that compare two runs, which differ anyway if another law is broken."""
LAWS: tuple[Callable[[Subject], None], ...] = (
    same_seed_same_choices,
    random_numbers_come_from_rng,
    learning_leaves_a_valid_state,
    numbers_of_any_size_leave_a_usable_state,
    probabilities_match_choices,
    rankings_begin_with_choices,
    settings_are_validated,
    impossible_states_are_refused,
    *NEEDS,
)
