"""Replay of Yahoo! R6A files: estimate the click rate of a policy from random displays.

The policy chooses an article for each event of the log. If it chooses the displayed article, it learns the click.
Otherwise the event is skipped. Since the displayed articles were uniformly random, the matched events have the same
distribution as events that the policy would meet online, and their click rate is an unbiased estimate of the policy's
click rate (Li, Chu, Langford and Wang, WSDM 2011). `evaluation.play_log` is the same method for other logs.
"""

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import types

from glbandits.bandit.entry_points import policy_recipe
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.common.errors import check_int
from glbandits.compilation.entry_point import Recipe, entry_point
from glbandits.compilation.numba_support import GENERATOR, READ_CUBE, READ_VECTOR, VECTOR, borrowed
from glbandits.lab.environments import NewsEvents, ReadCounts, is_simulated, read_events
from glbandits.lab.environments.r6a import DIM, check_files
from glbandits.maths.links import Link, LinkFunctions, find_link
from glbandits.maths.online_statistics.running_sums import RunningSums
from glbandits.maths.philox import generator
from glbandits.policies.contract import Policy
from glbandits.policies.contract.compiled_calls import (
    checked_arm,
    checked_state,
    convert_index_errors,
    policy_functions,
)
from glbandits.policies.contract.policy_checks import check_policy


@dataclass(frozen=True, eq=False)
class R6aReplay:
    """The result of replaying R6A files with one policy."""

    policy: Policy
    files: tuple[Path, ...]
    seed: int
    simulated: bool
    """Whether any of the files was simulated. Reports must say so."""
    counts: ReadCounts
    """Counts of events that were read, to the end of the last batch, and of events that were left out."""
    events: int
    """Events that were offered to the policy: those that displayed an article with the features 1 to 6."""
    matched: int
    """Events in which the policy chose the displayed article."""
    clicks: int
    """Clicks in matched events."""
    at_events: Ints
    """Events after which `at_matched` and `at_clicks` were recorded, (points,): evenly spaced but for the last."""
    at_matched: Ints
    """Matched events up to there, (points,)."""
    at_clicks: Ints
    """Clicks up to there, (points,)."""

    @property
    def ctr(self) -> float:
        """Click rate of the matched events; NaN if none matched."""
        return self.clicks / self.matched if self.matched else math.nan

    @property
    def standard_error(self) -> float:
        """Standard error of `ctr`, if all matched events have the same click probability; NaN if none matched."""
        return math.sqrt(self.ctr * (1 - self.ctr) / self.matched) if self.matched else math.nan

    @property
    def running_ctr(self) -> Floats:
        """Click rate of the matched events so far, (points,); NaN before the first match."""
        running: Floats = np.full(len(self.at_events), math.nan)
        np.divide(self.at_clicks, self.at_matched, out=running, where=self.at_matched > 0)
        return running


def replay_r6a(
    policy: Policy,
    files: Iterable[str | os.PathLike[str]],
    seed: int,
    *,
    limit: int | None = None,
    points: int = 1000,
    progress: Callable[[int], None] | None = None,
) -> R6aReplay:
    """Replay the events of R6A files with a policy.

    The policy sees the features 1 to 6 of the articles of each event's pool, and no features of the user. It makes the
    same choices as `Bandit(policy, 6, seed)`. Events that displayed an article with other features are skipped. With K
    articles, about one event in K matches.

    Args:
        policy: the policy. A setting `horizon` means the number of matched events.
        files: paths of R6A files, plain or gzipped.
        seed: of the policy's random numbers.
        limit: the number of offered events after which the replay stops.
        points: the maximum number of events at which the running click rate is recorded.
        progress: called with the number of events just read.
    """
    check_policy(policy, DIM)
    link = find_link(policy.link)
    link.check_reward(0.0)
    link.check_reward(1.0)
    seed, points = check_int("seed", seed, at_least=0), check_int("points", points, at_least=1)
    remaining = check_int("limit", limit, at_least=1) if limit is not None else None
    paths = check_files(files)
    play = entry_point(replay_recipe, policy.implementation(DIM), link).compiled()
    state, settings, rng = policy.init(DIM), policy.packed_settings(DIM), generator(seed)
    counts, sums = ReadCounts(), RunningSums(columns=2, points=points)
    for batch in read_events(paths):
        counts += batch.counts
        offered = np.flatnonzero(batch.displayed >= 0)[:remaining]
        matched = np.empty(len(offered), dtype=np.int64)
        clicks = batch.clicks[offered]
        with convert_index_errors(policy, "the replay"):
            state = play(
                state,
                settings,
                rng,
                *_stack_pools(batch),
                batch.pool[offered],
                batch.displayed[offered],
                clicks,
                matched,
            )
        sums.add(np.stack([matched, matched * clicks]).astype(np.float64))
        if progress is not None:
            progress(len(batch))
        remaining = remaining - len(offered) if remaining is not None else None
        if remaining == 0:
            break
    at_events, at_matched, at_clicks = sums.table().astype(np.int64)
    return R6aReplay(
        policy=policy,
        files=paths,
        seed=seed,
        simulated=any(map(is_simulated, paths)),
        counts=counts,
        events=int(at_events[-1]),
        matched=int(at_matched[-1]),
        clicks=int(at_clicks[-1]),
        at_events=at_events,
        at_matched=at_matched,
        at_clicks=at_clicks,
    )


def _stack_pools(batch: NewsEvents) -> tuple[Floats, Ints]:
    """Return the features of all pools, (pools, max articles, 6), and the number of articles of each pool."""
    sizes = np.array([len(pool.ids) for pool in batch.pools], dtype=np.int64)
    arms = np.zeros((len(sizes), max(sizes, default=0), DIM))
    for index, pool in enumerate(batch.pools):
        arms[index, : len(pool.ids)] = pool.features
    return arms, sizes


def replay_recipe(policy: type[Policy], link: Link) -> Recipe:
    """Return the recipe of a function that replays events and returns the policy's state after them.

    The function writes to `matched` whether each event matched.
    """
    choose, learn, _, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def play(
        state: Floats,
        settings: Floats,
        rng: Generator,
        arms: Floats,
        sizes: Ints,
        pool: Ints,
        displayed: Ints,
        clicks: Ints,
        matched: Ints,
    ) -> Floats:
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        arms = borrowed(arms)
        for event in range(pool.shape[0]):
            p, row = pool[event], displayed[event]
            arm = checked_arm(choose(state, named, arms[p, : sizes[p]], rng, functions), sizes[p], name)
            is_match = arm == row
            if is_match:
                state = checked_state(learn(state, named, arms[p, row], float(clicks[event]), rng, functions))
            matched[event] = is_match
        return state

    ints = types.int64[::1]
    signature = VECTOR(VECTOR, READ_VECTOR, GENERATOR, READ_CUBE, ints, ints, ints, ints, ints)
    return policy_recipe(play, signature, policy, link, more=", replay")
