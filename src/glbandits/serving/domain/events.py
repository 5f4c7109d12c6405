"""The events of a loop, as the log has them: decisions, activations and rewards.

The log is the source of truth, and the model is a function of it: decisions are learned in the order of their sequence
numbers, each when its reward window is over, with the rewards that came in time. So the log yields the same model
again, bit for bit, and every decision can be made again.
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from glbandits.serving.domain.catalogue_arms import CatalogueRecord


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


class DecisionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to choose an action. `Decision` documents the fields."""

    event_id: str
    request: bytes
    encoding: str
    actions: tuple[str, ...]
    excluded: tuple[int, ...] = ()
    baseline: int | None = None
    slot: str = ""
    deferred: bool = False
    reward_range: tuple[float, float] | None = None
    """Rewards that the event accepts, unless the loop has a range of its own."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """An action that was chosen, and all that is needed to choose it again and to learn from it.

    Stores keep decisions by the encoded names of the fields, so that stores of older versions can be read.
    """

    loop: str
    event_id: str
    slot: str = ""
    """Id of the slot: an event with several slots has one decision for each. Empty if there is only one."""
    timestamp: int = msgspec.field(name="at")
    """Microseconds since 1970."""
    request: bytes
    """The features of the request, in the format that `encoding` names."""
    encoding: str
    """json: context and actions. dense: float64 rows, an action each."""
    actions: tuple[str, ...]
    """Their ids, in the order of the request."""
    excluded: tuple[int, ...] = ()
    """Indices of actions that must not be chosen."""
    chosen: int
    """Index of the action that was drawn from `probabilities`."""
    shown: int
    """Index of the action that was returned: the baseline unless the mode is Online."""
    baseline: int | None = None
    """Index of the action to show without a model, if the request named it, as slots do. None means the first allowed
    action, or a log of a version that did not store it."""
    probability: float
    """Probability of the shown action."""
    probabilities: tuple[float, ...]
    """Probability of each action in the draw, exploration included."""
    epoch: int = 0
    """Number of times that the model was replaced, by a reset, an import or another policy."""
    model: int
    """Sequence number of the last decision that the model had learned: its version within the epoch."""
    mode: Mode
    deferred: bool = False
    """Whether the decision is learned only if it is activated."""
    reward_window: int = msgspec.field(name="wait")
    """Microseconds after the decision for which rewards are accepted."""
    default_reward: float
    aggregation: Aggregation
    exploration: float
    """Share of decisions that are uniformly random."""
    seed: int
    """Seed of the draw."""
    reward_range: tuple[float, float] | None = None
    """The smallest and the largest reward that the store accepts; None for all that are finite."""
    catalogue: CatalogueRecord | None = None
    """Of a decision from the loop's catalogue. `actions` are then the baseline, if the request named one, and the arm
    that was drawn; `probabilities` are theirs, and do not add up to 1."""

    @property
    def highest_probability(self) -> float:
        """The probability of the most likely action."""
        return max(self.probabilities) if self.catalogue is None else self.catalogue.highest


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """The action of a deferred decision was used."""

    loop: str
    event_id: str
    timestamp: int


class Reward(msgspec.Struct, frozen=True, kw_only=True):
    """A reward of a decision."""

    loop: str
    event_id: str
    slot: str = ""
    timestamp: int
    value: float
    key: str = ""
    """Idempotency key: rewards of a decision with the same key count once. Empty: every reward counts."""


Event: TypeAlias = Decision | Activation | Reward


class EventStatus(StrEnum):
    """What became of a submitted event. Accepted and late events are in the log, the others are only counted."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The log has an event of the same name. A decision changes nothing; a reward or an activation counts once."""
    LATE = "late"
    """The event came after the reward window. It is in the log, and not learned."""
    UNKNOWN = "unknown"
    """There is no such decision."""
    OUT_OF_RANGE = "out_of_range"
    """A reward outside the range of its decision. It is not in the log."""


class Receipt(msgspec.Struct, frozen=True):
    """The answer of the store to an event. The store gives it when the event is durable."""

    status: EventStatus
    sequence: int
    """Of the event in the log; of the first one for a duplicate; 0 if there is none."""
    message: str = ""
    """Why the event was refused: for a reward that is out of range."""


class SettledDecision(msgspec.Struct, frozen=True):
    """A decision that is closed, or whose reward window is over, with the rewards that came in time."""

    sequence: int
    """Of the decision. Decisions are learned in this order."""
    decision: Decision
    rewards: tuple[tuple[int, float], ...]
    """Timestamp and value of each, in the order of the log."""
    activated: bool


class LoggedReward(msgspec.Struct, frozen=True):
    """A reward as it is in the log."""

    sequence: int
    timestamp: int
    value: float
    key: str
    late: bool


class LoggedDecision(msgspec.Struct, frozen=True):
    """A decision as it is in the log, with all that came of it so far."""

    sequence: int
    decision: Decision
    rewards: tuple[LoggedReward, ...]
    """Late ones too, in the order in which they came."""
    activated_at: int | None
    """When it was activated in time; None if it was not."""

    def settled(self) -> SettledDecision:
        """The same with only what came in time."""
        rewards = tuple((reward.timestamp, reward.value) for reward in self.rewards if not reward.late)
        return SettledDecision(self.sequence, self.decision, rewards, self.activated_at is not None)
