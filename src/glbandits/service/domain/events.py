"""The events of a loop as the log stores them: decisions, activations and rewards.

The log is the source of truth, and the model is a function of the log: decisions are learned in the order of their
sequence numbers, each when its reward window has closed, with the rewards that came in time. So the same model can be
computed from the log again, bit for bit, and every decision can be reproduced.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_datetime(timestamp: int) -> datetime:
    """Convert microseconds since 1970 to a time in UTC."""
    return EPOCH + timedelta(microseconds=timestamp)


class Mode(StrEnum):
    """Which action is shown, and whether its reward is learned."""

    ONLINE = "Online"
    APPRENTICE = "Apprentice"
    """The baseline is always shown, and its rewards are learned. The choice of the model is only logged."""
    LOGGING = "LoggingOnly"
    """The baseline is always shown, and nothing is learned."""


class Aggregation(StrEnum):
    """How several rewards of one decision are combined."""

    EARLIEST = "earliest"
    SUM = "sum"
    AVERAGE = "average"
    MEDIAN = "median"
    MIN = "min"
    MAX = "max"


class Group(StrEnum):
    """The group of a unit in a loop with a control group."""

    TREATMENT = "treatment"
    """The loop decides."""
    CONTROL = "control"
    """`Control.show` decides."""


class DecisionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to choose an action."""

    event_id: str
    slot: str = ""
    """Id of the slot: an event with several slots has one decision for each. Empty if there is only one."""
    slots: tuple[str, ...] = ()
    """Ids of all slots of the event, in the order of their decisions. Empty if there is only one."""
    request: bytes
    """The features of the request, in the format that `encoding` names."""
    encoding: str
    """json: context and actions. dense: float64 rows, an action each."""
    actions: tuple[str, ...]
    """The ids of the actions, in the order of the request."""
    values: tuple[float, ...] | None = None
    costs: tuple[float, ...] | None = None
    """The value and the cost of each action. The model decides by value times expected reward minus cost, and learns
    the reward. None: every value is 1, and every cost 0."""
    excluded: tuple[int, ...] = ()
    """Indices of actions that must not be chosen."""
    baseline: int | None = None
    """Index of the action to show without a model, if the request names one, as requests with slots do. Otherwise None:
    the baseline is the first allowed action, see `baseline_of`."""
    deferred: bool = False
    """Whether the decision is learned only if it is activated."""
    unit: str = ""
    """The user or session for which the decision is made; in a `Decision` its salted hash. Empty: not known."""
    sticky: bool = False
    """Whether the unit gets the same action again for the same set of actions, for `LoopConfig.sticky_for`."""
    reward_range: tuple[float, float] | None = None
    """The smallest and the largest reward that is accepted, unless the loop has a range of its own. None: all finite
    rewards."""


class Decision(DecisionRequest, frozen=True, kw_only=True, omit_defaults=True):
    """A request with the chosen action, and all that is needed to reproduce the choice and to learn from it."""

    loop: str
    timestamp: int
    """Microseconds since 1970."""
    chosen: int
    """Index of the action that was drawn from `probabilities`."""
    shown: int
    """Index of the action that was returned: the baseline unless the mode is Online."""
    probability: float
    """Probability of the shown action."""
    probabilities: tuple[float, ...]
    """Probability of each action in the draw, exploration included."""
    epoch: int = 0
    """The number of times that the model was replaced: by a reset, an import or another policy."""
    learned_through: int
    """Sequence number of the last decision that the model had learned: its version within the epoch."""
    mode: Mode
    reward_window: int
    """Microseconds after the decision for which rewards are accepted."""
    default_reward: float
    aggregation: Aggregation
    exploration: float
    """Share of decisions that are uniformly random."""
    seed: int
    """Seed of the draw."""
    alone: bool = False
    """Whether the decision is a unit of its own although `unit` is known, because events are assigned to groups."""
    group: Group | None = None
    """None if the loop had no control group."""
    control_share: float = 0.0
    """The probability with which a new unit was assigned to control."""
    control_show: str = "baseline"
    """What control got, see `Control.show`."""
    fallback: bool = False
    """Whether a guardrail had stopped the loop, so that the baseline was shown."""
    repeats: str = ""
    """The event whose action the unit got again (`sticky`). The probabilities are those of the first draw."""
    unit_rule: str = "0.0"
    """The rule that made `unit` of the name of the unit: units are new ones after a change of the control group, and
    when a loop is resumed. See `LoopTerms`."""
    history: int = 0
    """The history of the store (`DocumentStore.history`) that the model has learned."""
    lost_model: bool = False
    """Whether the store has lost what the model had learned, so that the decision cannot be repeated: it was made just
    before the server noticed a failover of the database."""
    predicted: tuple[float, float] | None = None
    """Rewards that the model predicted before the group was known: that of the baseline, and the mean over
    `probabilities`. None without a control group, and if they are not finite."""

    @property
    def is_stopped(self) -> bool:
        """Whether all units got the baseline: in fallback, and in modes other than Online."""
        return self.fallback or self.mode is not Mode.ONLINE

    @property
    def is_drawn(self) -> bool:
        """Whether the shown action was drawn from `probabilities` for this decision."""
        return not self.is_stopped and not self.repeats and self.group is not Group.CONTROL

    def shown_probabilities(self) -> Sequence[float]:
        """Return the probability of each action with which it was shown to units of this group."""
        indices = range(len(self.actions))
        if self.is_stopped or (self.group is Group.CONTROL and self.control_show != "uniform"):
            return [float(index == self.shown) for index in indices]
        if self.group is not Group.CONTROL:
            return self.probabilities
        return [0.0 if index in self.excluded else self.probability for index in indices]


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """The message that the action of a deferred decision was used."""

    loop: str
    event_id: str
    timestamp: int


class Reward(msgspec.Struct, frozen=True, kw_only=True):
    """A reward of a decision, or the number of a metric."""

    loop: str
    event_id: str
    slot: str = ""
    timestamp: int
    value: float | None
    """None: the slot was not observed, see `cascade`."""
    metric: str = ""
    """The name of the metric. Empty: the reward that the model learns."""
    window: int = 0
    """For a metric: microseconds after the first decision of the unit for which it counts."""
    key: str = ""
    """Idempotency key: rewards of a decision with the same metric and key count once. Empty: every reward counts, but
    only one number of each metric."""
    cascade: bool = False
    """Whether the user looked at the slots of the event in their order, and at none after this one. The log then has
    one reward without a value for each of the later slots."""
    refusal: str = ""
    """Why the API refuses the value; empty if it does not. The store counts a refused reward as out of range."""


Event: TypeAlias = Decision | Activation | Reward


class EventStatus(StrEnum):
    """The result of submitting an event.

    Accepted and late events are in the log; the others are only counted.
    """

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The log has an event of the same name, or a decision of an event with other slots. The repeated event changes
    nothing. Only a repeated reward with `cascade` marks later slots that are not marked."""
    LATE = "late"
    """The event came after the reward window. It is in the log, but the model does not learn it."""
    UNKNOWN = "unknown"
    """A reward or an activation of a decision that is not in the log, or a decision of a deleted loop."""
    OUT_OF_RANGE = "out_of_range"
    """A reward outside the range of its decision, or one that the API refuses. It is not in the log."""


class Receipt(msgspec.Struct, frozen=True):
    """The response of the store to a submitted event.

    The store returns it when the event is durable.
    """

    status: EventStatus
    sequence: int
    """The sequence number of the event; of the first event of the name for a duplicate; 0 if the event is not in the
    log."""
    message: str = ""
    """Why a reward is out of range; empty for other statuses."""


class UnitStart(NamedTuple):
    """The first decision of a unit: its sequence number, by which the log knows the unit, and its timestamp."""

    first: int
    since: int


class LoggedReward(msgspec.Struct, frozen=True):
    """A reward in the log."""

    sequence: int
    timestamp: int
    value: float | None
    """None: the slot was not observed."""
    key: str
    late: bool
    metric: str = ""
    """The name of the metric; empty for a reward."""


class SettledDecision(msgspec.Struct, frozen=True):
    """A decision that is sealed or whose reward window has closed, with its rewards in time."""

    sequence: int
    """The sequence number of the decision. Decisions are learned in this order."""
    decision: Decision
    rewards: tuple[tuple[int, float], ...]
    """The timestamp and the value of each reward, in the order of the log."""
    activated: bool
    observed: bool = True
    """False for a slot after the one at which the user stopped (`Reward.cascade`), if it has no reward of its own."""
    metrics: tuple[LoggedReward, ...] = ()
    """The numbers of metrics, also late ones, in the order in which they came."""


class LoggedDecision(msgspec.Struct, frozen=True):
    """A decision in the log, with its rewards and its activation so far."""

    sequence: int
    decision: Decision
    rewards: tuple[LoggedReward, ...]
    """Also late ones, in the order in which they came."""
    activated_at: int | None
    """The timestamp of the activation; None if the decision was not activated in time."""

    def settled(self) -> SettledDecision:
        """Return the decision with only the rewards and the activation that came in time."""
        in_time = [(each.timestamp, each.value) for each in self.rewards if not each.late and not each.metric]
        rewards = tuple((timestamp, value) for timestamp, value in in_time if value is not None)
        observed = bool(rewards) or not in_time
        metrics = tuple(each for each in self.rewards if each.metric)
        return SettledDecision(self.sequence, self.decision, rewards, self.activated_at is not None, observed, metrics)
