"""train: create a Bandit that has learned all rewards of a log."""

import warnings
from collections.abc import Callable, Mapping

from glbandits.bandit import Bandit
from glbandits.common.display.progress_lines import shown_progress
from glbandits.evaluation.logs.logged_data import Log, chosen_features, chosen_rows
from glbandits.evaluation.replay.log_player import block_rows, form_for_log, policy_for_log
from glbandits.policies.contract import Policy


def train(
    log: Log, policy: Policy | str, *, seed: int | None = 0, progress: Callable[[int, int], None] | None = None
) -> Bandit:
    """Return a Bandit that has learned the rewards of all rows of a log, in their order.

    If the log was read from a table, the Bandit has its feature map and takes rows with the same columns. If the log
    has sparse rows, the Bandit is sparse. A UserWarning says so if the policy needs more rewards for its first
    estimate: it still chooses at random then.

    >>> from glbandits import Optimist
    >>> from glbandits.evaluation import Columns, read_table, train
    >>> table = {"arm": ["a", "b"] * 50, "reward": [0, 1] * 50, "propensity": [0.5] * 100, "age": range(100)}
    >>> bandit = train(read_table(table, Columns(context=("age",))), Optimist())
    >>> bandit.choose([{"arm": "a", "age": 31}, {"arm": "b", "age": 31}])
    1

    Args:
        log: decisions of any policy.
        policy: the policy of the Bandit, with its settings; or its name.
        seed: seed of the later decisions of the Bandit; None for a random seed.
        progress: called with the number of rows learned so far, and of all rows. By default lines are printed to stderr
            if it is a terminal or a notebook, and training takes more than two seconds. The first training with a
            policy also compiles it.
    """
    policy = policy_for_log(policy)
    with shown_progress(progress, f"{policy.name} learns") as report:
        return train_all(log, {"": policy}, seed=seed, progress=report)[""]


def train_all(
    log: Log,
    policies: Mapping[str, Policy],
    *,
    seed: int | None = 0,
    progress: Callable[[int, int], None],
) -> dict[str, Bandit]:
    """Return Bandits that have learned all rows of a log, in one pass. `train` describes them.

    Args:
        log: decisions of any policy.
        policies: by their labels.
        seed: seed of the later decisions of the Bandits.
        progress: called with the number of rows learned so far, and of all rows, over all policies.
    """
    bandits = {}
    for label, policy in policies.items():
        form_for_log(policy, log)
        bandits[label] = Bandit(policy, log.dim, seed, sparse=log.sparse, features=log.feature_map)
    done, rows, total = 0, 0, len(log) * len(policies)
    for block in log.blocks(block_rows(policies.values())):
        features = chosen_rows(block) if log.sparse else chosen_features(block)
        for bandit in bandits.values():
            bandit.learn_batch(features, block.rewards)
            done += len(block)
            progress(done, total)
        rows += len(block)
    for policy in policies.values():
        if rows < (needed := policy.random_start(log.dim)):
            warnings.warn(
                f"{policy.name} still chooses at random: it has learned {rows:,} rewards and needs {needed:,} for its "
                "first estimate. Set its block_length or warm_up to a smaller number, or use another policy",
                stacklevel=3,
            )
    return bandits
