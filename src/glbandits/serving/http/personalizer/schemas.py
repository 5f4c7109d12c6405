"""Rank, reward and activation as they are sent, with one slot and with several."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from glbandits.errors import InvalidInput

LONGEST_ID = 256

Features: TypeAlias = list[dict[str, Any] | None] | dict[str, Any] | None
"""A list of objects; the SDKs let an object, nulls and nothing at all through."""


class RankableAction(msgspec.Struct, frozen=True):
    """An action, with what is known of it."""

    id: str
    features: Features


class RankRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The question which of the actions to show. Fields that nobody knows are ignored."""

    actions: list[RankableAction]
    context_features: Features = None
    excluded_actions: list[str] | None = None
    event_id: str | None = None
    defer_activation: bool | None = None

    def __post_init__(self) -> None:
        check_event(self.event_id)
        check_actions(self.actions)


class RankedAction(msgspec.Struct, frozen=True):
    """An action, and the chance that it had."""

    id: str
    probability: float


class RankResponse(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The action to show, the chances of all, and two things that Personalizer did not tell."""

    ranking: list[RankedAction]
    event_id: str
    reward_action_id: str
    model_version: str
    degraded: bool = False
    """The decision was not known to be safe when this was sent."""


class RewardRequest(msgspec.Struct, frozen=True):
    """What came of an event."""

    value: float

    def __post_init__(self) -> None:
        check_reward(self.value)


class SlotRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A place that gets one of the actions."""

    id: str
    baseline_action: str
    features: Features = None
    excluded_actions: list[str] | None = None


class MultiSlotRankRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The question which actions to show in several places, each action in one place at most."""

    actions: list[RankableAction]
    slots: list[SlotRequest]
    context_features: Features = None
    event_id: str | None = None
    defer_activation: bool | None = None

    def __post_init__(self) -> None:
        check_event(self.event_id)
        check_actions(self.actions)
        if not 1 <= len(self.slots) <= len(self.actions):
            raise InvalidInput(
                f"Slot count should be between 1 and the number of actions, {len(self.actions)}; got {len(self.slots)}."
            )
        check_ids("Slot", [slot.id for slot in self.slots])
        known = {action.id for action in self.actions}
        for slot in self.slots:
            if slot.baseline_action not in known:
                raise InvalidInput(f"The baselineAction of slot {slot.id!r} should be the id of one of the actions.")


class SlotResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The action to show in a place."""

    id: str
    reward_action_id: str


class MultiSlotRankResponse(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The actions to show."""

    slots: list[SlotResponse]
    event_id: str
    model_version: str
    degraded: bool = False


class SlotReward(msgspec.Struct, frozen=True, rename="camel"):
    """What came of a place."""

    slot_id: str
    value: float

    def __post_init__(self) -> None:
        check_reward(self.value)


class MultiSlotRewardRequest(msgspec.Struct, frozen=True):
    """What came of an event with several places."""

    reward: list[SlotReward]

    def __post_init__(self) -> None:
        if not self.reward:
            raise InvalidInput("Reward should have at least one slot.")
        check_ids("Slot", [reward.slot_id for reward in self.reward])


def check_event(event_id: str | None) -> None:
    """An id that may name an event."""
    if event_id is not None and not event_id.strip():
        raise InvalidInput("EventId should be non-empty or null.")
    if event_id is not None and len(event_id) > LONGEST_ID:
        raise InvalidInput(f"EventId should have at most {LONGEST_ID} characters; got {len(event_id)}.")


def check_reward(value: float) -> None:
    """A reward that may be sent. JSON has no NaN, but other callers might."""
    if not -1.0 <= value <= 1.0:
        raise InvalidInput(f"Reward should be between -1 and 1; got {value:g}.")


def check_actions(actions: Sequence[RankableAction]) -> None:
    """Actions that can be told apart, of which something is known."""
    check_ids("Action", [action.id for action in actions])
    for action in actions:
        if not _says_something(action.features):
            raise InvalidInput("Every action should have at least one non-null action feature.")


def check_ids(what: str, ids: Sequence[str]) -> None:
    """Names that are there, are not too long, and tell things apart."""
    if not all(map(str.strip, ids)):
        raise InvalidInput(f"{what} ids must not be empty.")
    longest = max(map(len, ids), default=0)
    if longest > LONGEST_ID:
        raise InvalidInput(f"{what} ids should have at most {LONGEST_ID} characters; got {longest}.")
    if len(set(ids)) < len(ids):
        twice = next(name for index, name in enumerate(ids) if name in ids[:index])
        raise InvalidInput(f"{what} ids must be unique; {twice[:40]!r} is there twice.")


def feature_objects(features: Features) -> list[Any]:
    """What the SDKs let through, as a list of objects."""
    if isinstance(features, dict):
        return [features]
    if features and None in features:
        return [part for part in features if part is not None]
    return features or []


def _says_something(features: Features) -> bool:
    for part in feature_objects(features):
        for value in part.values():
            if value is not None:
                return True
    return False
