"""What happens in a loop, as it is kept: decisions, activations and rewards.

The log of these is the truth. The model is a function of it: decisions are learned in the order of their numbers, each
when its wait is over, with the rewards that came in time. So whoever has the log can learn the same model, bit for bit,
and make every decision again.
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec


class Mode(StrEnum):
    """Who decides, and whether that is learned."""

    ONLINE = "Online"
    APPRENTICE = "Apprentice"
    """The baseline is always shown, and learned from; the model decides in silence."""
    LOGGING = "LoggingOnly"
    """The baseline is always shown, and nothing is learned."""


class Aggregation(StrEnum):
    """What several rewards of one decision come to."""

    EARLIEST = "earliest"
    SUM = "sum"
    AVERAGE = "average"
    MEDIAN = "median"
    MIN = "min"
    MAX = "max"


class DecisionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a loop is asked to decide. `Decision` has the same fields, and says what they mean."""

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
    """Of a decision with several slots, one decision each; empty if there is one."""
    timestamp: int = msgspec.field(name="at")
    """Microseconds since 1970."""
    request: bytes
    """What the features are made from, as JSON or as numbers: see `encoding`."""
    encoding: str
    """json: context and actions. dense: float64 rows, an action each."""
    actions: tuple[str, ...]
    """Their ids, in the order of the request."""
    excluded: tuple[int, ...] = ()
    """Places of actions that were not to be chosen."""
    chosen: int
    """The place of the action that the model's draw gave."""
    shown: int
    """The place of the action that was returned: the baseline unless the mode is Online."""
    baseline: int | None = None
    """The place of the action that is shown without a model, in place of the first allowed one, if the request named
    it: a slot does. None if it did not, or in a log of a version that did not keep it."""
    probability: float
    """The chance that the shown action had."""
    probabilities: tuple[float, ...]
    """The chance that the model gave each action, floor included."""
    epoch: int = 0
    """How many times the model was replaced: by a reset, an import, or another policy."""
    model: int
    """The number of the last decision that the model had passed when it decided: its version within the epoch."""
    mode: Mode
    deferred: bool = False
    """Whether it counts only when it is activated."""
    reward_window: int = msgspec.field(name="wait")
    """Microseconds that rewards are waited for."""
    default_reward: float
    aggregation: Aggregation
    exploration: float
    """The share of random decisions."""
    seed: int
    """What the draw was made with."""
    reward_range: tuple[float, float] | None = None
    """The smallest and the largest reward that the store accepts; None for all that are finite."""


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """A deferred decision was used after all."""

    loop: str
    event_id: str
    timestamp: int


class Reward(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a decision."""

    loop: str
    event_id: str
    slot: str = ""
    timestamp: int
    value: float
    key: str = ""
    """A name that the sender gave it: the same reward sent twice counts once. Empty: every one counts."""


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
    """A decision that is closed, or whose wait is over, with what came in time."""

    sequence: int
    """Of the decision: they are learned in this order."""
    decision: Decision
    rewards: tuple[tuple[int, float], ...]
    """When each came and its value, in the order in which they came."""
    activated: bool


ACTION_SIZE = 128
"""Approximate bytes of an action in memory beside its features: its id and its probability."""


def size_of(event: Event) -> int:
    """Return the approximate size of a decision in memory, in bytes; 0 for other events, which are small."""
    return len(event.request) + ACTION_SIZE * len(event.actions) if isinstance(event, Decision) else 0
