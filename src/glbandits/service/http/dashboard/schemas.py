"""The response of /v1/statistics."""

from datetime import datetime

import msgspec

from glbandits.service.domain.decision_totals import MeanWithError
from glbandits.service.domain.verdict import Judgement
from glbandits.service.http.v1.schemas import ApiStruct
from glbandits.service.runtime.loops.loop_statistics import Window


class ActionShare(ApiStruct, frozen=True, kw_only=True):
    """The number of decisions that showed an action."""

    id: str
    decisions: int


class Delays(ApiStruct, frozen=True, kw_only=True):
    """Quantiles of the seconds from a decision to its first reward."""

    median: float
    p90: float
    p99: float


class Point(ApiStruct, frozen=True, kw_only=True):
    """The statistics of a time bucket."""

    at: datetime
    """The start of the bucket."""
    decisions: int
    explored: int
    reward: MeanWithError | None
    baseline: MeanWithError | None
    delays: Delays | None
    actions: tuple[int, ...]
    """The number of decisions that showed each of `Statistics.actions`."""


class Learner(ApiStruct, frozen=True, kw_only=True):
    """The state of the learner."""

    running: bool
    learned_at: datetime | None
    """When the model was last updated; None if it was not since the server's start."""
    lag: float
    """Seconds for which the oldest settled decision has not been learned."""
    failures: int
    """Failures of learning, in all loops."""
    set_aside: int
    """Decisions of this loop that cannot be learned, because their rewards or features are unusable or would make the
    model invalid."""
    outlying_rewards: int
    """Rewards that the model has limited, because they were far outside everything seen before."""
    outlying_values: int
    """Feature values that the model has limited, for the same reason."""


class Statistics(ApiStruct, frozen=True, kw_only=True):
    """Statistics of the decisions that the learner has processed.

    Decisions with an open reward window do not count.
    """

    loop: str
    window: Window
    at: datetime
    """The time of the response."""
    wait: float
    """The reward window in seconds."""
    degraded: int
    """Decisions of all loops, since the start, that were returned before they were durable."""
    learner: Learner
    past: Judgement
    """The verdict on all decisions since the log was started, against the baseline. Does not depend on the window."""
    present: Judgement
    """The verdict on the present model against the baseline, from its last decisions. Does not depend on the window."""
    uniform: Judgement
    """The verdict on the decisions of `past` against a uniformly random choice of allowed actions."""
    unlimited: int
    """Decisions that do not count for the verdicts, because their rewards have no limits."""
    # `DecisionTotals` documents these.
    decisions: int
    with_values: int
    learned: int
    """Without decisions of the mode LoggingOnly and deferred ones that were not activated."""
    compared: int
    missing: int
    explored: int
    agreed: int
    baseline_shown: int
    baseline_sample_size: float = msgspec.field(name="baselineWorth")
    reward: MeanWithError | None
    baseline: MeanWithError | None
    """The estimated mean reward of the baseline, by self-normalised inverse propensity weights."""
    delays: Delays | None
    actions: list[ActionShare]
    """The most frequent actions."""
    width: float
    """The length of each bucket in seconds."""
    points: list[Point]
    """Time buckets with decisions, the oldest first."""
