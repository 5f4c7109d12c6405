"""The statistics of a loop as they go over the wire."""

from collections.abc import Sequence
from datetime import datetime

from glbandits.serving.domain.loop_config import SECOND
from glbandits.serving.domain.reward_aggregates import Estimate, Tally, Verdict
from glbandits.serving.http.v1.admin_handlers import moment
from glbandits.serving.http.v1.schemas import Wire
from glbandits.serving.runtime.loop_statistics import View, Window

MOST_ACTIONS = 20
"""Actions that are told by name; the others are told together."""
FEWEST = 10
"""Decisions of the baseline that a point must be worth to say something of it: see `Tally.baseline_worth`."""


class Estimated(Wire, frozen=True, kw_only=True):
    """A number and its standard error."""

    value: float
    error: float


class ActionShare(Wire, frozen=True, kw_only=True):
    """How often an action was shown."""

    id: str
    decisions: int


class Delays(Wire, frozen=True, kw_only=True):
    """Seconds from a decision to its first reward, within which 50, 90 and 99 % came."""

    median: float
    p90: float
    p99: float


class Point(Wire, frozen=True, kw_only=True):
    """A stretch of time."""

    at: datetime
    """When it begins."""
    decisions: int
    explored: int
    reward: Estimated | None
    baseline: Estimated | None
    delays: Delays | None
    actions: tuple[int, ...]
    """How often each of `actions` of the whole was shown."""


class Learner(Wire, frozen=True, kw_only=True):
    """How learning goes."""

    running: bool
    learned_at: datetime | None
    """When the model last passed decisions; None since the server's start."""
    lag: float
    """Seconds that a decision has been ready to be learned."""
    failures: int
    """Times that learning failed, in any loop."""
    set_aside: int
    """Decisions of this loop that cannot be learned: their rewards or features are unusable."""


class Statistics(Wire, frozen=True, kw_only=True):
    """What came of the decisions that the learner has passed. Those that wait for rewards are not among them."""

    loop: str
    window: Window
    at: datetime
    """When this was told."""
    wait: float
    """Seconds that rewards are waited for."""
    degraded: int
    """Decisions of all loops, since the start, that were returned before they were safe."""
    learner: Learner
    verdict: Verdict
    """Is it learning?"""
    decisions: int
    learned: int
    """Those of them that were learned: not those of the mode LoggingOnly, nor deferred ones that were not activated."""
    missing: int
    """Learned with the default reward, as none came in time."""
    explored: int
    """The draw was not the model's most likely action."""
    agreed: int
    """The draw was the baseline: see `baseline_of`."""
    baseline_shown: int
    """Learned, and the baseline was shown."""
    baseline_worth: float
    """How many decisions of equal weight would tell as much of the baseline."""
    unsupported: int
    """Learned, though the baseline had no chance: the estimate of its reward says nothing of these."""
    reward: Estimated | None
    baseline: Estimated | None
    """What the baseline would have earned, by self-normalised inverse propensities."""
    difference: Estimated | None
    delays: Delays | None
    actions: list[ActionShare]
    """The most frequent ones."""
    width: float
    """Seconds of each point."""
    points: list[Point]
    """Stretches of time in which anything happened, the oldest first."""


def statistics_of(
    view: View, *, loop: str, window: Window, at: int, wait: float, degraded: int, learner: Learner
) -> Statistics:
    """A view as it is told."""
    whole, frequent = view.whole, view.whole.frequent()[:MOST_ACTIONS]
    names = [name for name, _ in frequent]
    return Statistics(
        loop=loop,
        window=window,
        at=moment(at),
        wait=wait,
        degraded=degraded,
        learner=learner,
        verdict=whole.verdict,
        decisions=whole.decisions,
        learned=whole.learned,
        missing=whole.missing,
        explored=whole.explored,
        agreed=whole.agreed,
        baseline_shown=whole.baseline_shown,
        baseline_worth=whole.baseline_worth,
        unsupported=whole.unsupported,
        reward=_estimated(whole.reward),
        baseline=_estimated(whole.baseline),
        difference=_estimated(whole.difference),
        delays=_delays(whole),
        actions=[ActionShare(id=name, decisions=count) for name, count in frequent],
        width=view.width / SECOND,
        points=[_point(begin, tally, names) for begin, tally in view.points.items()],
    )


def _point(begin: int, tally: Tally, names: Sequence[str]) -> Point:
    return Point(
        at=moment(begin),
        decisions=tally.decisions,
        explored=tally.explored,
        reward=_estimated(tally.reward),
        baseline=_estimated(tally.baseline) if tally.baseline_worth >= FEWEST else None,
        delays=_delays(tally),
        actions=tuple(tally.actions.get(name, 0) for name in names),
    )


def _estimated(estimate: Estimate | None) -> Estimated | None:
    return None if estimate is None else Estimated(value=estimate.value, error=estimate.error)


def _delays(tally: Tally) -> Delays | None:
    median, p90, p99 = (tally.delay(share) for share in (0.5, 0.9, 0.99))
    if median is None or p90 is None or p99 is None:
        return None
    return Delays(median=median / SECOND, p90=p90 / SECOND, p99=p99 / SECOND)
