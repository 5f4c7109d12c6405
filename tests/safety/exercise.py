"""Play policies at many sizes and print a digest of all that they did.

Usage: `python -m tests.safety.exercise NAME...`

The digest must not change when freed memory is overwritten (glibc.malloc.perturb), and no index may leave its array
(NUMBA_BOUNDSCHECK).
"""

import os
import sys
import warnings
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np

from glbandits import Bandit, SparseRows
from glbandits.common.arrays import Floats
from glbandits.compilation.entry_point import entry_point
from glbandits.evaluation import LoggedData, SparseArms
from glbandits.evaluation.estimators.frozen_target import FrozenTarget
from glbandits.evaluation.learning.log_player import play_policies
from glbandits.evaluation.learning.play_loops import all_recipe, matched_recipe
from glbandits.evaluation.learning.players import PlaySettings
from glbandits.lab import SparseHashed, Synthetic, simulate
from glbandits.lab.environments.rounds import Rounds
from glbandits.maths.links import own_link
from glbandits.maths.philox import generator
from glbandits.policies import POLICIES
from glbandits.policies.contract import Policy
from glbandits.policies.contract.decisions import has_scores

DIMENSIONS = (1, 2, 7, 57, 116, 127, 128, 129, 300)
ARMS = (1, 2, 3, 20, 200)
EXTRA = {
    "optimist": ({"half_life": 3.0}, {"half_life": "auto"}),
    "sgd-ts": ({"draw": "candidates", "candidates": 5},),
}
"""Settings that lead to other code, besides the defaults."""
EVERY_LOOP = ("uniform", "optimist", "sgd-ts", "ucb-glm")
"""Policies that play through every compiled loop. The loops do not depend on the policy, and compiling one of them for
all policies takes minutes. Every policy plays through `choose`, `learn`, `probabilities` and a simulation."""
SPARSE: dict[str, tuple[dict[str, Any], ...]] = {
    "optimist": ({}, {"half_life": 3.0}),
    "laplace-ts": ({},),
    "epsilon-greedy": ({"fit": "online"},),
    "uniform": ({},),
}
"""Settings of the policies with a sparse form."""


def short(kind: Any, **settings: Any) -> Policy:
    """A policy whose warm-up is over after a few rounds."""
    known = {field for base in kind.__mro__ for field in getattr(base, "__annotations__", {})}
    wanted = {"block_length": 3, "warm_up": 3} | settings
    policy: Policy = kind(**{name: value for name, value in wanted.items() if name in known})
    return policy


def rounds_at(dim: int, arms: int) -> int:
    """Enough rounds that a history grows twice, fewer where a round is slow."""
    return 40 if dim <= 7 else 20 if dim * arms <= 3000 else 6


def play(policy: Policy, dim: int, arms: int, digest: Any) -> None:
    """Choose, ask for probabilities, and learn."""
    rng, bandit = np.random.default_rng(dim * 1000 + arms), Bandit(policy, dim, seed=1)
    pool = rng.normal(size=(arms, dim)) / np.sqrt(dim)
    for t in range(rounds_at(dim, arms)):
        offered = pool if t % 3 == 0 else rng.normal(size=(rng.integers(1, arms + 1), dim)) / np.sqrt(dim)
        if policy.name == "optimist" and dim > 128 and t % 3 == 1:
            offered = offered * (rng.random(offered.shape) < 0.1)  # other blocks of features in every round
        arm = bandit.choose(offered)
        digest.update(bytes([arm % 256]))
        digest.update(bandit.probabilities(offered, draws=5).tobytes())
        bandit.learn(offered[arm], float(rng.random() < 0.5))
    if policy.name in EVERY_LOOP:
        few = pool[:4]  # of 300 features, a reward takes some policies a second with bounds checks
        bandit.learn_batch(few, rng.integers(0, 2, len(few)))
    digest.update(bandit.state.tobytes())


def play_sparse(policy: Policy, dim: int, arms: int, digest: Any) -> None:
    """Play sparse rows: one by one, as a batch, and many rows in one call. Tables grow several times."""
    rng, bandit = np.random.default_rng(dim * 1000 + arms), Bandit(policy, dim, seed=1, sparse=True)
    offered = [sparse_rows(rng, int(rng.integers(1, arms + 1)), dim) for _ in range(40)]
    for rows in offered:
        arm = bandit.choose(rows)
        digest.update(bandit.probabilities(rows, draws=5).tobytes() + bytes([arm % 256]))
        bandit.learn(rows.row(arm), float(rng.random() < 0.5))
    bandit.learn_batch(offered[0], rng.integers(0, 2, offered[0].row_count))
    digest.update(bandit.state.tobytes())
    play_sparse_log(
        bandit,
        LoggedData(
            chosen=np.arange(40) % arms,
            rewards=rng.integers(0, 2, 40).astype(float),
            propensities=np.full(40, 1 / arms),
            arms=SparseArms(sparse_rows(rng, 40 * arms, dim), np.full(40, arms), dim),
        ),
        digest,
    )


def play_sparse_log(bandit: Bandit, log: LoggedData, digest: Any) -> None:
    """Both ways to play a log with sparse rows, and its evaluation; then a simulation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for way in (PlaySettings(learn="matched"), PlaySettings(learn="all", exact=True)):
            [[curve]] = play_policies([bandit.policy], log, [1], way)
            digest.update(curve.at_values.tobytes())
    digest.update(FrozenTarget(bandit).probabilities(log, 0).tobytes())
    with_payoffs = replace(log, values=np.random.default_rng(2).random((len(log), log.arms.max_arms)))
    digest.update(FrozenTarget(bandit).probabilities(with_payoffs, 0).tobytes())
    problem = SparseHashed(dim=3 * 2**20, arms=3, nonzeros=6, names=200)
    digest.update(simulate(bandit.policy, problem, horizon=30, seeds=[1], jobs=1).regret.tobytes())


def sparse_rows(rng: np.random.Generator, count: int, dim: int) -> SparseRows:
    """Rows of up to twelve features."""
    sizes = rng.integers(0, min(dim, 12) + 1, count)
    indices = [np.sort(rng.choice(min(dim, 10_000), size, replace=False)) * max(dim // 10_000, 1) for size in sizes]
    flat = np.concatenate(indices).astype(np.int64)
    return SparseRows(np.concatenate([[0], np.cumsum(sizes)]), flat, rng.normal(size=flat.size))


def play_logs(policy: Policy, dim: int, arms: int, digest: Any) -> None:
    """Simulation, and the loops over logs."""
    problem = Synthetic(dim=dim, arms=arms, fewest_arms=1, link=policy.link)
    result = simulate(policy, problem, horizon=30, seeds=2, jobs=1)
    digest.update(result.regret.tobytes())
    if policy.name in EVERY_LOOP:
        play_log_loops(policy, problem, digest)


def play_log_loops(policy: Policy, problem: Synthetic, digest: Any) -> None:
    """Both ways to play a log."""
    dim = problem.dim
    block: Rounds = next(iter(problem.rounds(30, seed=1)))
    rows, keys = len(block), (policy.implementation(dim), own_link(policy.link))
    chosen = np.array([t % count for t, count in enumerate(block.counts)])
    rewards, ones = (np.arange(rows) % 2).astype(float), np.ones(rows)
    state: Floats = policy.init(dim)
    start = (policy.packed_settings(dim), generator(1))
    log = (block.rows, block.starts, block.counts, chosen, rewards)
    matched, kept = np.empty(rows), np.empty(rows)
    out = [entry_point(all_recipe, *keys).compiled()(state.copy(), *start, *log, True, matched)]
    digest.update(matched.tobytes())
    keep = entry_point(matched_recipe, *keys).compiled()
    out.append(keep(state.copy(), *start, *log, ones, generator(2), matched, kept))
    if has_scores(policy.implementation(dim)):
        payoffs = np.random.default_rng(3).random((2, rows, int(block.counts.max())))
        with_payoffs = ((block.rows, *payoffs), *log[1:])
        out.append(entry_point(all_recipe, *keys, True).compiled()(state.copy(), *start, *with_payoffs, True, matched))
        digest.update(matched.tobytes())
    for learned in out:
        digest.update(learned.tobytes())


def main(names: list[str]) -> None:
    """Print the digest of each policy."""
    for name in names or list(POLICIES):
        digest = sha256()
        for settings in ({}, *EXTRA.get(name, ())):
            policy = short(POLICIES[name], **settings)
            for dim in DIMENSIONS:
                for arms in ARMS:
                    play(policy, dim, arms, digest)
            for dim, arms in ((2, 3), (57, 20), (129, 3)):
                play_logs(policy, dim, arms, digest)
        for sparse_settings in SPARSE.get(name, ()):
            for dim, arms in ((3, 1), (6, 2), (30, 7), (3 * 2**28, 20)):
                play_sparse(short(POLICIES[name], **sparse_settings), dim, arms, digest)
        sys.stdout.write(f"{name} {digest.hexdigest()[:16]}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    os.environ["GLBANDITS_COMPILE"] = "now"  # the tests around this process may have set another mode
    main(sys.argv[1:])
