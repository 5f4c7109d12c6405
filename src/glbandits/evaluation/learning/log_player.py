"""Play a log with any number of policies in one pass over it."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.display.progress_lines import duration
from glbandits.common.errors import InvalidInput, check_int
from glbandits.compilation.entry_point import compile_all, compile_mode, uncompiled_entry
from glbandits.compilation.recipe import Job
from glbandits.evaluation.learning.learning_curve import Learn, LearningCurve
from glbandits.evaluation.learning.players import (
    AgentLogPlayer,
    BlockArrays,
    LogPlayer,
    PlaySettings,
    PolicyPlayer,
    check_propensities,
    play_job,
)
from glbandits.evaluation.logs.logged_data import BLOCK, MAX_DENSE_FEATURES, Log, chosen_features
from glbandits.evaluation.logs.reward_checks import check_rewards
from glbandits.maths.links import Link, find_link
from glbandits.policies import EpsilonGreedy, Policy
from glbandits.policies.agents import AgentFactory, PolicyLike, PolicyOrAgent, warn_if_agents_change
from glbandits.policies.contract.decisions import check_has_scores
from glbandits.policies.contract.policy_checks import check_can_run, check_is_policy
from glbandits.policies.parsing import as_policy_or_agent, split_policy
from glbandits.policies.sparse_forms import sparse_form

MAX_SECONDS, WARNING_SECONDS = 3600.0, 30.0
"""Estimated seconds above which a policy is refused, and above which there is a warning."""
SLOW_BLOCK = 1000
"""Rows of a block for policies that refit all rewards after each one, so that progress is reported often."""
SECONDS_PER_STEP = 1.2e-8
"""Seconds of a fit with a warm start, per row and feature: 0.7e-8 to 2.4e-8 for 5 to 60 features."""
PROBED_ROWS = 32
"""Rows that a policy plays in plain Python, which shows how long it would take for all."""
SAMPLED_ROWS = 5000
"""Rows from which the number of distinct rows is estimated."""


def play_policies(
    policies: Sequence[PolicyOrAgent],
    log: Log,
    seeds: Sequence[int],
    settings: PlaySettings,
    progress: Callable[[int], None] | None = None,
    *,
    size: int | None = None,
) -> list[list[LearningCurve]]:
    """Return the learning curves of each policy with each seed.

    The results are those of separate runs, but the log is checked once and read once for all. `progress` is called with
    the number of rows just played, summed over policies and seeds. `size` is the number of rows of a block, by default
    `block_rows(policies)`. Rounding errors of sums depend on it.
    """
    min_propensity, length, payoffs = _check(log, policies)
    check_duration(policies, log, length, settings.learn, seeds=len(seeds))
    if settings.learn == "matched" and settings.least_propensity is None:
        settings = replace(settings, least_propensity=min_propensity)

    def player_of(policy: PolicyOrAgent, seed: int) -> LogPlayer:
        if isinstance(policy, AgentFactory):
            return AgentLogPlayer(policy, log.dim, seed, settings)
        return PolicyPlayer(policy, log.dim, seed, settings, sparse=log.sparse, payoffs=payoffs, rows=length)

    with warn_if_agents_change(policies):
        players = [[player_of(policy, seed) for seed in seeds] for policy in policies]
        for block in log.blocks(size or block_rows(policies)):
            rows = BlockArrays.from_block(block)
            for player in (player for same_policy in players for player in same_policy):
                player.play(rows)
                if progress is not None:
                    progress(len(block))
    return [[player.curve() for player in same_policy] for same_policy in players]


def form_for_log(policy: Policy, log: Log) -> Policy:
    """Return the form of a policy that learns from a log.

    Raises InvalidInput if the rows are sparse and the policy has no sparse form.
    """
    advice = (
        f"The rows of this log are sparse; by default those with more than {MAX_DENSE_FEATURES:,} features are, and it "
        f"has {log.dim:,}. Use one of these policies, give hashed columns fewer features with "
        "kinds, or set sparse=False, which is slow and needs much memory."
    )
    return sparse_form(policy, log.dim, advice=advice) if log.sparse else policy


def policy_for_log(policy: PolicyLike) -> PolicyOrAgent:
    """Return a policy or a factory of agents, or create that of a text.

    A text means `fit="online"` unless it says otherwise: an exact fit of all rows at each row takes minutes.

    >>> policy_for_log("epsilon-greedy").fit, policy_for_log("epsilon-greedy:fit=exact").fit
    ('online', 'exact')
    """
    return as_policy_or_agent(policy, **(log_settings(policy) if isinstance(policy, str) else {}))


def log_settings(text: str) -> dict[str, str]:
    """Return the settings that a policy has on logs, unless its text gives them."""
    if text.partition(":")[0].strip() != EpsilonGreedy.name:  # arm:NAME has a name of an arm, and no settings
        return {}
    return {} if "fit" in split_policy(text).settings else {"fit": "online"}


def _check(log: Log, policies: Sequence[PolicyOrAgent]) -> tuple[float, int, bool]:
    """Check that all policies can learn from a log.

    Return its smallest propensity, its number of rows, and whether it has payoffs.
    """
    if not isinstance(log, Log):
        raise InvalidInput(f"log must be LoggedData or another Log; got {type(log).__name__}")
    check_int("the number of features of the log", log.dim, at_least=1)
    compiled = compiled_policies(policies)
    for policy in compiled:
        check_can_run(form_for_log(policy, log), log.dim)
    learners = {find_link(policy.link): policy.name for policy in compiled}
    min_propensity, first_row, payoffs = 1.0, 0, _check_payoffs(policies, log)
    for block in log.blocks(features=False):
        min_propensity = min(min_propensity, float(check_propensities(block).min(initial=1.0)))
        for link, name in learners.items():
            _check_learnable(block.rewards, link, name, first_row)
        first_row += len(block)
    if not first_row:
        raise InvalidInput("log must have at least one row; got none")
    return min_propensity, first_row, payoffs


def compiled_policies(policies: Iterable[PolicyOrAgent]) -> list[Policy]:
    """Return the policies that are no agents. Raises InvalidInput if one of them is no policy."""
    return [check_is_policy(policy) for policy in policies if not isinstance(policy, AgentFactory)]


def _check_payoffs(policies: Iterable[PolicyOrAgent], log: Log) -> bool:
    """Return whether a log has payoffs. Raises InvalidInput if it has, and a policy cannot choose by them."""
    if not log.schema.payoffs:
        return False
    for policy in policies:
        if isinstance(policy, AgentFactory):
            raise InvalidInput(
                f"{policy.name} is an agent, which chooses without values and costs, but the log has them. Read the "
                "log without payoffs, or use a policy"
            )
        check_has_scores(form_for_log(policy, log).implementation(log.dim), "payoffs")
    return True


def block_rows(policies: Iterable[PolicyOrAgent]) -> int:
    """Number of rows of a block for these policies."""
    slow = (isinstance(policy, AgentFactory) or policy.keeps_history for policy in policies)
    return SLOW_BLOCK if any(slow) else BLOCK


def check_duration(policies: Iterable[PolicyOrAgent], log: Log, rows: int, learn: Learn, *, seeds: int = 1) -> None:
    """Raise InvalidInput if a policy would take hours.

    Warn if all policies and seeds together take long.

    Only policies that refit all rewards after each one are slow, and they have no sparse form. A fit takes
    O(distinct rows x features). The number of distinct rows is estimated from the first rows of the log.
    """
    slow = [] if log.sparse else [policy for policy in compiled_policies(policies) if policy.keeps_history]
    if not slow:
        return
    block = next(iter(log.blocks()))
    rewards = rows if learn == "all" else rows // block.arms.max_arms
    sample = chosen_features(block)[:SAMPLED_ROWS]
    distinct = len(np.unique(sample, axis=0))
    if distinct > len(sample) // 2:  # most rows are distinct, so assume the same of later rows
        distinct = max(distinct, rewards * distinct // (2 * len(sample)))
    seconds = SECONDS_PER_STEP * rewards * distinct * log.dim
    if seconds > MAX_SECONDS:
        raise InvalidInput(
            f"{slow[0].name} refits all rewards after each one: about {seconds / 3600:.1f} hours for "
            f"{rewards:,} rewards with {log.dim} features. Use a policy of constant cost, such as "
            "optimist, or fewer rows."
        )
    if seconds * seeds * len(slow) > WARNING_SECONDS:
        runs = f", {len(slow) * seeds} times" if len(slow) * seeds > 1 else ""
        warnings.warn(
            f"{slow[0].name} refits all rewards after each one{runs}: about {duration(seconds * seeds * len(slow))} "
            f"for {rewards:,} rewards with {log.dim} features. optimist takes constant time for each.",
            stacklevel=2,
        )


def _check_learnable(rewards: Floats, link: Link, learner: str, first_row: int) -> None:
    check_rewards(rewards, link, lambda row: f"{learner} cannot learn row {first_row + row}")


def compile_slow(
    policies: Sequence[PolicyOrAgent],
    log: Log,
    settings: PlaySettings,
    *,
    seeds: int = 1,
    other_jobs: Callable[[Policy], Sequence[Job]] = lambda _form: (),
) -> None:
    """Compile all policies at the same time, except for those that plain Python plays sooner.

    Args:
        policies: that will play the log.
        log: the log.
        settings: how the log is played.
        seeds: how many times each policy plays the log.
        other_jobs: returns further entry points of a form of a policy.
    """
    first = None if compile_mode() == "never" else next(iter(log.blocks(PROBED_ROWS)), None)
    if first is None:
        return
    slow = list[Job]()
    payoffs = _check_payoffs(policies, log)
    probed = replace(settings, least_propensity=1.0) if settings.learn == "matched" else settings
    for policy in compiled_policies(policies):
        form = form_for_log(policy, log)
        check_can_run(form, log.dim)
        _check_learnable(first.rewards, find_link(policy.link), policy.name, 0)
        job, rows = play_job(form, log.dim, settings.learn, payoffs), len(log) * seeds
        entry = uncompiled_entry(*job)
        if not entry.is_ready and not entry.recipe.check_bounds:
            player = PolicyPlayer(policy, log.dim, 0, probed, sparse=log.sparse, payoffs=payoffs)
            player.play(BlockArrays.from_block(first))
        if policy.keeps_history:  # the cost of a row grows with the rows before it
            rows *= max(len(log) // PROBED_ROWS, 1)
        if entry.recipe.check_bounds or (not entry.is_ready and entry.is_slow(rows)):
            slow += [job, *other_jobs(form)]
    compile_all(slow)
