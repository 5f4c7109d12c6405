"""Requests and responses of rank, reward and activate."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from glbandits.common.errors import InvalidInput

LONGEST_ID = 256
MAX_CACHED_TEXTS, LONGEST_CACHED_TEXT = 10_000, 512
"""Features of actions whose text in the log is cached, at most, and the largest size of such a text: about 10 MB."""

Features: TypeAlias = list[dict[str, Any] | None] | dict[str, Any] | None
"""A list of objects. The SDKs also send one object, nulls in the list, and null."""


class RankableAction(msgspec.Struct, frozen=True):
    """An action with its features."""

    id: str
    features: Features


class SentAction(msgspec.Struct, frozen=True):
    """An action whose features are not decoded: those of most actions are known from earlier requests."""

    id: str
    features: msgspec.Raw


Action = TypeVar("Action", RankableAction, SentAction)


class RankOf(msgspec.Struct, Generic[Action], frozen=True, rename="camel"):
    """A `RankRequest` with one of the two types of actions."""

    actions: list[Action]
    context_features: Features = None
    excluded_actions: list[str] | None = None
    event_id: str | None = None
    defer_activation: bool | None = None

    def __post_init__(self) -> None:
        check_event(self.event_id)
        _check_ids([action.id for action in self.actions])


class RankRequest(RankOf[RankableAction], frozen=True):
    """A request to choose one of several actions. Unknown fields are ignored."""


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


def _check_ids(ids: Sequence[str]) -> None:
    """Raise InvalidInput unless ids are not empty, not too long, and unique."""
    if not all(map(str.strip, ids)):
        raise InvalidInput("Action ids must not be empty.")
    longest = max(map(len, ids), default=0)
    if longest > LONGEST_ID:
        raise InvalidInput(f"Action ids should have at most {LONGEST_ID} characters; got {longest}.")
    if len(set(ids)) < len(ids):
        twice = next(name for index, name in enumerate(ids) if name in ids[:index])
        raise InvalidInput(f"Action ids must be unique; {twice[:40]!r} was sent twice.")


def feature_texts(actions: Sequence[SentAction]) -> list[bytes]:
    """Return the features of actions as the log has them: lists of objects, as JSON without spaces.

    Raises InvalidInput if they are no `Features`, or if an action has none.
    """
    return [_cached_text(bytes(action.features)) for action in actions]


def _cached_text(sent: bytes) -> bytes:
    return _recurring_text(sent) if len(sent) <= LONGEST_CACHED_TEXT else _feature_text(sent)


def _feature_text(sent: bytes) -> bytes:
    try:
        objects = feature_objects(_decode_features(sent))
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the body is invalid: {error}, in the features of an action") from None
    if all(value is None for part in objects for value in part.values()):
        raise InvalidInput("Every action should have at least one non-null action feature.")
    return msgspec.json.encode(objects)


_recurring_text = lru_cache(MAX_CACHED_TEXTS)(_feature_text)
_decode_features = msgspec.json.Decoder(Features).decode


def feature_objects(features: Features) -> list[Any]:
    """Return features as a list of objects, see `Features`."""
    if isinstance(features, dict):
        return [features]
    if features and None in features:
        return [part for part in features if part is not None]
    return features or []
