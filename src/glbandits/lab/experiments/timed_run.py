"""A single run that measures CPU time and returns the final state of the policy."""

import time
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.lab.environments import Noise
from glbandits.lab.environments.rounds import Rounds
from glbandits.lab.simulation.play_recipes import play_entry
from glbandits.maths.links import find_link
from glbandits.maths.philox import generator
from glbandits.policies.contract import Policy
from glbandits.policies.contract.policy_checks import check_can_run


class TimedRun(NamedTuple):
    """The cost and the final state of one run."""

    seconds: float
    """CPU seconds of choosing and learning. Compilation and the generation of rounds are not included."""
    state: Floats
    """The state array of the policy after the last round: everything that the policy keeps."""


def timed_run(policy: Policy, dim: int, noise: Noise, chunks: Iterable[Rounds], seed: int = 1) -> TimedRun:
    """Play all chunks in order, in this thread, with compiled code.

    The caller decides which rounds are played: an environment's `rounds` for new arms in every round, or
    `itertools.repeat` of a few rounds. A policy that stores its observations merges those with equal features, so
    repeated rounds hide the growth of its history.

    Args:
        policy: settings; compiled first if necessary.
        dim: the number of features of an arm.
        noise: how an expected reward becomes a reward.
        chunks: consecutive rounds.
        seed: of the policy's own random numbers.
    """
    check_can_run(policy, dim)
    play = play_entry(policy.implementation(dim), find_link(policy.link), noise, compiled=True)
    state, settings, rng = policy.init(dim), policy.packed_settings(dim), generator(seed)
    seconds = 0.0
    for chunk in chunks:
        best, choices, regret = chunk.best(), np.empty(len(chunk), dtype=np.int64), np.empty(len(chunk))
        rows, starts = chunk.rows, chunk.starts
        start = time.thread_time()
        state = play(
            state, settings, rng, rows, starts, chunk.counts, chunk.expected, chunk.payoffs, best, chunk.noise, 0.0,
            choices, regret,
        )  # fmt: skip
        seconds += time.thread_time() - start
    return TimedRun(seconds, state)
