"""Requests and responses of the API. The OpenAPI document and the clients use these types.

The clients need no NumPy, so this module does not import it.
"""

from datetime import datetime
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from glbandits.service.domain.contribution import Contribution
from glbandits.service.domain.events import Aggregation, EventStatus, Group, Mode
from glbandits.service.domain.groups.experiment import MOST_METRICS
from glbandits.service.server_settings import LoopName

LONGEST_ID = 256
"""Characters of the id of an event or an arm, and of the key of a reward, at most."""

MOST_POSITIONS = 50
"""Positions of a ranking, at most. The log has the features of all arms once for each position."""

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]
Key: TypeAlias = Annotated[str, Meta(max_length=LONGEST_ID)]
Position: TypeAlias = Annotated[int, Meta(ge=0)]


class ApiStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of requests and responses: names in camelCase, and no unknown fields."""


class DecideRequest(ApiStruct, frozen=True, kw_only=True):
    """A request to choose one of several arms."""

    event_id: Id | None = None
    """The id of the decision, from which the draw is seeded. The same id again gets the same response. None: the server
    creates one."""
    arms: Annotated[list[list[float]], Meta(min_length=1)] | None = None
    """The features of each arm, as many numbers as the width of the loop. Send either `arms` or `rows`."""
    rows: Annotated[list[dict[str, Any]], Meta(min_length=1)] | None = None
    """The named fields of each arm. The model's feature map turns fields into numbers; without one they are hashed."""
    context: dict[str, Any] | None = None
    """Named fields that all `rows` share."""
    ids: list[Id] | None = None
    """Ids of the arms, for the log. None: the names in the arm column of the feature map, or in the only field that the
    map does not use, if each row has another name; else indices."""
    values: Annotated[list[float], Meta(min_length=1)] | None = None
    """What a reward of 1 of each arm is worth, at least 0. The loop then chooses by value times expected reward minus
    cost. It learns the rewards as they are sent. None: every value is 1."""
    costs: Annotated[list[float], Meta(min_length=1)] | None = None
    """What choosing each arm costs, in the unit of `values`. None: nothing."""
    excluded: list[Annotated[int, Meta(ge=0)]] = []
    """Indices of arms that must not be chosen."""
    deferred: bool = False
    """Whether the decision is learned only if it is activated."""
    unit: Id | None = None
    """The user or session for which the decision is made. Its group in a loop with a control group depends on it, and
    its numbers of metrics count together. The log has a salted hash of it."""
    sticky: bool = False
    """Whether the unit gets the same arm again for the same set of arms, for the setting `stickyFor` of the loop. Needs
    `unit`."""


class Decided(ApiStruct, frozen=True, kw_only=True):
    """The chosen arm."""

    event_id: str
    arm: int
    """Index of the arm to use."""
    id: str
    probability: float
    probabilities: tuple[float, ...]
    """The probability of each arm in the draw, in the order of the request."""
    model_version: str
    """The epoch of the model, and the sequence number of the last decision that it has learned."""
    degraded: bool
    """The decision was not known to be durable when it was returned. After a crash its reward may be unknown."""


class RankingRequest(DecideRequest, frozen=True, kw_only=True):
    """A request to rank the best arms."""

    k: Annotated[int, Meta(ge=1, le=MOST_POSITIONS)]
    """The number of positions, at most as many as there are arms that are not excluded."""


class Ranked(ApiStruct, frozen=True, kw_only=True):
    """The ranked arms, the first position first."""

    event_id: str
    arms: tuple[int, ...]
    """Index of the arm at each position. All are different."""
    ids: tuple[str, ...]
    probability: float
    """The probability of the ranking: the product of `probabilities`."""
    probabilities: tuple[float, ...]
    """The probability of the arm at each position, given the arms above it."""
    model_version: str
    """The model that filled the first position."""
    degraded: bool
    """Not all positions were known to be durable when they were returned."""


class DecisionName(ApiStruct, frozen=True, kw_only=True):
    """Names a decision: by its event, or as the last one of a flag for a unit."""

    event_id: Id | None = None
    flag: LoopName | None = None
    targeting_key: Id | None = None
    """With `flag`, in place of `eventId`."""


class EventRewardRequest(DecisionName, frozen=True, kw_only=True):
    """A reward of a decision, or of a position of a ranking."""

    value: float
    position: Position | None = None
    """The position in a ranking, 0 for the first one. None if the event is not a ranking."""
    cascade: bool = False
    """Whether the user looked at the positions from the first one on, and at none below this one. Those below are then
    not learned. Those above get the default reward, like all positions without a reward."""
    key: Key = ""
    """Idempotency key: rewards of a decision with the same key count once. Empty: every reward counts."""


class Rewarded(ApiStruct, frozen=True, kw_only=True):
    """The status of a reward or an activation."""

    event_id: str
    status: EventStatus
    """Late ones are in the log, but are not learned."""


class MetricsRequest(DecisionName, frozen=True, kw_only=True):
    """Numbers of metrics for a decision, or for a position of a ranking."""

    metrics: Annotated[dict[str, float], Meta(min_length=1, max_length=MOST_METRICS)]
    """A number for each name. The setting `metrics` of the loop must have these names."""
    position: Position | None = None
    """The position in a ranking. None: the first position or slot of the event."""
    key: Key = ""
    """A decision has one number for each metric and key: a second one is a duplicate. Send another key for one more."""


class MetricsReply(ApiStruct, frozen=True, kw_only=True):
    """The status of the number of each metric."""

    event_id: str
    statuses: dict[str, EventStatus]
    """Late ones, after the window of the metric, are in the log, but do not count."""


class ActivateRequest(ApiStruct, frozen=True, kw_only=True):
    """The message that a deferred decision was used."""

    event_id: Id


class BatchRequest(ApiStruct, frozen=True, kw_only=True):
    """Decisions, rewards and numbers of metrics.

    Decisions are made first, so rewards and metrics may be of a decision in the same batch.
    """

    decide: list[DecideRequest] = []
    reward: list[EventRewardRequest] = []
    metrics: list[MetricsRequest] = []


class ItemProblem(ApiStruct, frozen=True, kw_only=True):
    """The error of an item of a batch."""

    status: int
    """The HTTP status that a request with this item alone would have."""
    code: str
    detail: str


class DecideOutcome(ApiStruct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision, or the problem."""

    decided: Decided | None = None
    problem: ItemProblem | None = None


class RewardOutcome(ApiStruct, frozen=True, kw_only=True, omit_defaults=True):
    """The status of a reward, or the problem."""

    rewarded: Rewarded | None = None
    problem: ItemProblem | None = None


class MetricsOutcome(ApiStruct, frozen=True, kw_only=True, omit_defaults=True):
    """The statuses of numbers of metrics, or the problem."""

    measured: MetricsReply | None = None
    problem: ItemProblem | None = None


class BatchReply(ApiStruct, frozen=True, kw_only=True):
    """The outcome of each item, in the order of the request."""

    decide: list[DecideOutcome]
    reward: list[RewardOutcome]
    metrics: list[MetricsOutcome]


class EventReward(ApiStruct, frozen=True, kw_only=True):
    """A reward or a number of a metric in the log."""

    number: int
    at: datetime
    value: float | None
    """None: the position was not observed."""
    metric: str
    """The name of the metric; empty for a reward."""
    key: str
    late: bool


class EventRecord(ApiStruct, frozen=True, kw_only=True):
    """A decision in the log, with its rewards and its activation so far."""

    # `Decision` documents the fields that have the same name.
    number: int
    event_id: str
    slot: str
    at: datetime
    actions: tuple[str, ...]
    values: tuple[float, ...] | None
    costs: tuple[float, ...] | None
    excluded: tuple[int, ...]
    shown: int
    chosen: int
    probability: float
    probabilities: tuple[float, ...]
    model_version: str
    mode: Mode
    deferred: bool
    unit: str
    group: Group | None
    fallback: bool
    repeats: str
    activated_at: datetime | None
    rewards: list[EventReward]
    rewards_after: int | None
    """The parameter `rewardsAfter` for the next rewards; null if these are the last ones."""
    wait: float
    """The reward window in seconds."""
    default_reward: float
    aggregation: Aggregation
    exploration: float
    seed: str
    """The seed of the draw, as text, because it has more digits than a number in JavaScript."""
    encoding: str
    """The encoding of the features: json or dense."""
    features: Any
    """For dense a list of numbers for each arm; for json the shared features and those of each action."""


class EventPage(ApiStruct, frozen=True, kw_only=True):
    """A page of the log, the newest first."""

    events: list[EventRecord]
    before: int | None
    """The parameter `before` for the next page; None if this is the last page."""


class ExplainedAction(ApiStruct, frozen=True, kw_only=True):
    """The score of an action and the contributions to it."""

    # `ActionExplanation` documents the fields that have the same name.
    id: str
    score: float
    probability: float
    value: float | None
    cost: float | None
    """The payoff of the action in the request. The score has no part of it. None: the request had no values."""
    shown: bool
    chosen: bool
    """Whether the draw chose the action. In modes other than Online another one may be shown."""
    contributions: tuple[Contribution, ...]


class ExplainedSlot(ApiStruct, frozen=True, kw_only=True):
    """The actions of one decision."""

    slot: str
    """Empty if the event has only one slot."""
    explained_by: str
    """Version of the model that explains the decision: the one that decided if the explanation is exact."""
    actions: list[ExplainedAction]
    """In the order of the request."""


class Explanation(ApiStruct, frozen=True, kw_only=True):
    """The contributions of features to the scores of an event's actions."""

    event_id: str
    model_version: str
    """Version of the model that decided; with several slots, the first one."""
    exact: bool
    """Whether each slot is explained by the model that decided. If not, the present model explains it."""
    slots: list[ExplainedSlot]


class Counts(ApiStruct, frozen=True, kw_only=True):
    """The number of submitted events by status."""

    decisions: dict[EventStatus, int]
    rewards: dict[EventStatus, int]
    activations: dict[EventStatus, int]
    metrics: dict[EventStatus, int]


class Relearning(ApiStruct, frozen=True, kw_only=True):
    """A new model learns the log under changed settings, and replaces the present model when it has learned all."""

    sentence: str
    learned_to: int
    """The sequence number of the last decision that the new model has learned, as of some seconds ago."""
    of: int
    """The sequence number of the last decision that the present model has learned."""


class Status(ApiStruct, frozen=True, kw_only=True):
    """The status of a loop."""

    loop: str
    policy: str
    width: int
    sparse: bool
    """Whether the model is sparse."""
    mode: Mode
    model_version: str
    learned_to: int
    """The sequence number of the last decision that the model has learned."""
    learning_failed: str | None
    """The errors with which learning fails at the moment; None if it works."""
    warnings: list[str]
    """Problems of the model that do not stop decisions, such as a saved model that cannot be loaded."""
    queue: int
    """Events of all loops in the write queue of the process."""
    first_at: datetime | None
    last_at: datetime | None
    counts: Counts
    relearning: Relearning | None
    """None if the model fits the settings."""


class NewLoop(ApiStruct, frozen=True, kw_only=True):
    """A loop to create."""

    name: LoopName
    configuration: dict[str, Any] = {}
    """Settings as in PATCH /v1/configuration. Omitted ones are those of new loops."""


class Loops(ApiStruct, frozen=True, kw_only=True):
    """The loops of the server."""

    loops: list[str]
