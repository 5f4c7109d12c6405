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

from glbandits.bandit import Bandit
from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import check_int
from glbandits.lab.environments import NewsEvents, ReadCounts, is_simulated, read_events
from glbandits.lab.environments.r6a import DIM, check_files
from glbandits.maths.links import find_link
from glbandits.maths.online_statistics.running_sums import RunningSums
from glbandits.policies.contract import Policy


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
    seed, points = check_int("seed", seed, at_least=0), check_int("points", points, at_least=1)
    remaining = check_int("limit", limit, at_least=1) if limit is not None else None
    bandit, paths = Bandit(policy, DIM, seed), check_files(files)
    for reward in (0.0, 1.0):
        find_link(policy.link).check_reward(reward)
    counts, sums = ReadCounts(), RunningSums(columns=2, points=points)
    for batch in read_events(paths):
        counts += batch.counts
        offered = np.flatnonzero(batch.displayed >= 0)[:remaining]
        matched = np.array([_play(bandit, batch, event) for event in offered.tolist()], dtype=np.int64)
        sums.add(np.stack([matched, matched * batch.clicks[offered]]).astype(np.float64))
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


def _play(bandit: Bandit, batch: NewsEvents, event: int) -> bool:
    """Return whether the bandit chooses the displayed article, and then let it learn the click."""
    arms, row = batch.pools[batch.pool[event]].features, int(batch.displayed[event])
    is_match = bandit.choose(arms) == row
    if is_match:
        bandit.learn(arms[row], float(batch.clicks[event]))
    return is_match
