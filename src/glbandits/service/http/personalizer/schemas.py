"""Requests and responses of rank, reward and activate, with one slot and with several."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from glbandits.common.errors import InvalidInput

LONGEST_ID = 256

Features: TypeAlias = list[dict[str, Any] | None] | dict[str, Any] | None
"""A list of objects. The SDKs also send one object, nulls in the list, and null."""


class RankableAction(msgspec.Struct, frozen=True):
    """An action with its features."""

    id: str
    features: Features


class RankRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request to choose one of several actions. Unknown fields are ignored."""

    actions: list[RankableAction]
    context_features: Features = None
    excluded_actions: list[str] | None = None
    event_id: str | None = None
    defer_activation: bool | None = None

    def __post_init__(self) -> None:
        check_event(self.event_id)
        check_actions(self.actions)


class RankedAction(msgspec.Struct, frozen=True):
    """An action and its probability."""

    id: str
    probability: float


class RankResponse(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The action to show and the probabilities of all.

    Personalizer has no `modelVersion` and no `degraded`.
    """

    ranking: list[RankedAction]
    event_id: str
    reward_action_id: str
    model_version: str
    degraded: bool = False
    """The decision was not known to be durable when it was returned."""


class RewardRequest(msgspec.Struct, frozen=True):
    """A reward of an event."""

    value: float


class SlotRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A slot, for which one of the actions is chosen."""

    id: str
    baseline_action: str
    features: Features = None
    excluded_actions: list[str] | None = None


class MultiSlotRankRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request to choose actions for several slots, each action for one slot at most."""

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
    """The action to show in a slot."""

    id: str
    reward_action_id: str


class MultiSlotRankResponse(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The actions to show in all slots."""

    slots: list[SlotResponse]
    event_id: str
    model_version: str
    degraded: bool = False


class SlotReward(msgspec.Struct, frozen=True, rename="camel"):
    """A reward of a slot."""

    slot_id: str
    value: float


class MultiSlotRewardRequest(msgspec.Struct, frozen=True):
    """Rewards of an event with several slots."""

    reward: list[SlotReward]

    def __post_init__(self) -> None:
        if not self.reward:
            raise InvalidInput("Reward should have at least one slot.")
        check_ids("Slot", [reward.slot_id for reward in self.reward])


def check_event(event_id: str | None) -> None:
    """Raise InvalidInput unless an event id is valid or None."""
    if event_id is not None and not event_id.strip():
        raise InvalidInput("EventId should be non-empty or null.")
    if event_id is not None and len(event_id) > LONGEST_ID:
        raise InvalidInput(f"EventId should have at most {LONGEST_ID} characters; got {len(event_id)}.")


def reward_refusal(value: float) -> str:
    """Return the message for a reward that is not between -1 and 1; an empty text for others."""
    if -1.0 <= value <= 1.0:
        return ""
    return (
        f"Reward should be between -1 and 1; got {value:g}. Divide it by the largest possible reward, or use "
        "/v1/decide and /v1/reward, which have no such limit."
    )


def check_actions(actions: Sequence[RankableAction]) -> None:
    """Raise InvalidInput unless the actions have valid ids, and each has a feature."""
    check_ids("Action", [action.id for action in actions])
    for action in actions:
        if all(value is None for part in feature_objects(action.features) for value in part.values()):
            raise InvalidInput("Every action should have at least one non-null action feature.")


def check_ids(what: str, ids: Sequence[str]) -> None:
    """Raise InvalidInput unless ids are not empty, not too long, and unique."""
    if not all(map(str.strip, ids)):
        raise InvalidInput(f"{what} ids must not be empty.")
    longest = max(map(len, ids), default=0)
    if longest > LONGEST_ID:
        raise InvalidInput(f"{what} ids should have at most {LONGEST_ID} characters; got {longest}.")
    if len(set(ids)) < len(ids):
        twice = next(name for index, name in enumerate(ids) if name in ids[:index])
        raise InvalidInput(f"{what} ids must be unique; {twice[:40]!r} was sent twice.")


def feature_objects(features: Features) -> list[Any]:
    """Return features as a list of objects, see `Features`."""
    if isinstance(features, dict):
        return [features]
    if features and None in features:
        return [part for part in features if part is not None]
    return features or []
