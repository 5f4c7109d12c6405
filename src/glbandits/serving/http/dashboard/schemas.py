"""The statistics of a loop as they go over the wire."""

from datetime import datetime

from glbandits.serving.domain.verdict import Verdict
from glbandits.serving.http.v1.schemas import Wire
from glbandits.serving.runtime.loop_statistics import Window


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


class Judgement(Wire, frozen=True, kw_only=True):
    """A verdict and what it rests on. Its interval holds at every look at once."""

    verdict: Verdict
    decisions: int
    """Decisions that are judged."""
    since: datetime | None
    """When the first of them was made."""
    difference: float | None
    """The mean reward of what was shown, minus the baseline's. None without a decision, as are its bounds."""
    low: float | None
    high: float | None
    unsupported: int
    """Decisions in which the baseline had probability 0: they say nothing of it."""
    decisions_needed: int | None
    """About how many more decisions an answer takes, if the difference stays; None if there is one, or if unknown."""
    expected_at: datetime | None
    """About when there will be an answer, at the present rate."""


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
    past: Judgement
    """All decisions since the log was begun. Does not depend on the window."""
    present: Judgement
    """The last decisions, which speak for the present model. Does not depend on the window."""
    unlimited: int
    """Decisions that are not judged, because their rewards have no limits."""
    # `Tally` documents these.
    decisions: int
    learned: int
    """Not those of the mode LoggingOnly, nor deferred ones that were not activated."""
    missing: int
    explored: int
    agreed: int
    baseline_shown: int
    baseline_worth: float
    reward: Estimated | None
    baseline: Estimated | None
    """What the baseline would have earned, by self-normalised inverse propensities."""
    delays: Delays | None
    actions: list[ActionShare]
    """The most frequent ones."""
    width: float
    """Seconds of each point."""
    points: list[Point]
    """Stretches of time in which anything happened, the oldest first."""
