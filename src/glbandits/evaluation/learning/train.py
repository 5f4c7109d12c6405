"""train: create a Bandit that has learned all rewards of a log."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, overload

from glbandits.bandit import Bandit
from glbandits.bandit.training_rows import TrainingRowSums
from glbandits.common.arrays import Floats
from glbandits.common.display.progress_lines import shown_progress
from glbandits.evaluation.learning.log_player import block_rows, compiled_policies, form_for_log, policy_for_log
from glbandits.evaluation.logs.logged_data import Log, chosen_features, chosen_rows
from glbandits.maths.sparse_rows import SparseRows
from glbandits.policies.agents import (
    Agent,
    AgentFactory,
    PlayingAgent,
    PolicyLike,
    PolicyOrAgent,
    read_only_rows,
    warn_if_agents_change,
)
from glbandits.policies.contract import Policy


@overload
def train(
    log: Log, policy: Policy | str, *, seed: int | None = 0, progress: Callable[[int, int], None] | None = None
) -> Bandit: ...
@overload
def train(
    log: Log,
    policy: Callable[..., Agent],
    *,
    seed: int | None = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Agent: ...
def train(
    log: Log, policy: PolicyLike, *, seed: int | None = 0, progress: Callable[[int, int], None] | None = None
) -> Any:
    """Return a Bandit that has learned the rewards of all rows of a log, in their order; or an agent that has.

    If the log was read from a table, the Bandit has its feature map and takes rows with the same columns. If the log
    has sparse rows, the Bandit is sparse. It remembers a sketch of the rows (`Bandit.training`), by which evaluations
    notice that it has learned them. A UserWarning says so if the policy needs more rewards for its first
    estimate: it still chooses at random then.

    >>> from glbandits import Optimist
    >>> from glbandits.evaluation import Columns, read_table, train
    >>> table = {"arm": ["a", "b"] * 50, "reward": [0, 1] * 50, "propensity": [0.5] * 100, "age": range(100)}
    >>> bandit = train(read_table(table, Columns(context=("age",))), Optimist())
    >>> bandit.choose([{"arm": "a", "age": 31}, {"arm": "b", "age": 31}])
    1

    Args:
        log: decisions of any policy.
        policy: the policy of the Bandit, with its settings; or its name; or a class or function that makes agents.
        seed: seed of the later decisions of the Bandit; None for a random seed.
        progress: called with the number of rows learned so far, and of all rows. By default lines are printed to stderr
            if it is a terminal or a notebook, and training takes more than two seconds. The first training with a
            policy also compiles it.
    """
    learner = policy_for_log(policy)
    with shown_progress(progress, f"{learner.name} learns") as report:
        trained = train_all(log, {"": learner}, seed=seed, progress=report)[""]
        return trained.agent if isinstance(trained, PlayingAgent) else trained


def train_all(
    log: Log,
    policies: Mapping[str, PolicyOrAgent],
    *,
    seed: int | None = 0,
    progress: Callable[[int, int], None],
) -> dict[str, Bandit | PlayingAgent]:
    """Return Bandits and agents that have learned all rows of a log, in one pass. `train` describes them.

    Args:
        log: decisions of any policy.
        policies: by their labels.
        seed: seed of the later decisions.
        progress: called with the number of rows learned so far, and of all rows, over all policies.
    """
    learners: dict[str, Bandit | PlayingAgent] = {}
    with warn_if_agents_change(list(policies.values())):
        for label, policy in policies.items():
            if isinstance(policy, AgentFactory):
                learners[label] = PlayingAgent(policy.new(log.dim), policy.name, seed, rows="row")
                continue
            form_for_log(policy, log)
            learners[label] = Bandit(policy, log.dim, seed, sparse=log.sparse, features=log.feature_map)
        done, rows, total, learned = 0, 0, len(log) * len(policies), TrainingRowSums()
        for block in log.blocks(block_rows(policies.values())):
            features = chosen_rows(block) if log.sparse else chosen_features(block)
            learned.add(features, block.rewards)
            for learner in learners.values():
                if isinstance(learner, PlayingAgent):
                    _learn_rows(learner, features, block.rewards, rows, log.dim)
                else:
                    learner.learn_batch(features, block.rewards)
                done += len(block)
                progress(done, total)
            rows += len(block)
    for learner in learners.values():
        if isinstance(learner, Bandit):
            learner.training = learned.training_rows()
    for policy in compiled_policies(policies.values()):
        if len(log) < (needed := policy.random_start(log.dim)):
            warnings.warn(
                f"{policy.name} still chooses at random: it has learned {len(log):,} rewards and needs {needed:,} for "
                "its first estimate. Set its block_length or warm_up to a smaller number, or use another policy",
                stacklevel=3,
            )
    return learners


def _learn_rows(agent: PlayingAgent, features: Any, rewards: Floats, first_row: int, dim: int) -> None:
    for i, reward in enumerate(rewards.tolist()):
        x = features.row(i) if isinstance(features, SparseRows) else features[i]
        agent.learn(read_only_rows(x, dim), reward, first_row + i)
