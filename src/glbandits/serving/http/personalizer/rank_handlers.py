"""Handlers of rank, reward and activate, for events with one action."""

from collections.abc import Collection, Sequence

import msgspec

from glbandits.serving.domain.action_selection import JSON, described_request
from glbandits.serving.domain.event_rules import new_event_id
from glbandits.serving.domain.events import Decision, DecisionRequest, EventStatus, Mode
from glbandits.serving.http.http_messages import NO_CONTENT, HttpError, Request, Response
from glbandits.serving.http.personalizer.schemas import (
    RankableAction,
    RankedAction,
    RankRequest,
    RankResponse,
    RewardRequest,
    check_count,
    check_event,
    decode,
    feature_objects,
)
from glbandits.serving.http.site import Site

_rank_request = msgspec.json.Decoder(RankRequest)
_reward_request = msgspec.json.Decoder(RewardRequest)
_encode = msgspec.json.Encoder().encode

REWARD_RANGE = (-1.0, 1.0)
"""The rewards that Personalizer accepts, unless the loop has a range of its own."""


async def rank(site: Site, request: Request) -> Response:
    """Choose one of the actions."""
    asked = decode(request.body, _rank_request)
    check_count(asked.actions, site.settings.max_actions)
    event_id = asked.event_id or new_event_id()
    question = DecisionRequest(
        event_id=event_id,
        request=described_request(
            feature_objects(asked.context_features), [feature_objects(action.features) for action in asked.actions]
        ),
        encoding=JSON,
        actions=tuple([action.id for action in asked.actions]),
        excluded=tuple(places_of(asked.actions, asked.excluded_actions or ())),
        deferred=bool(asked.defer_activation),
        reward_range=REWARD_RANGE,
    )
    decision, degraded = await site.service.decide(request.loop_name, question)
    response = RankResponse(
        ranking_of(decision), event_id, decision.actions[decision.shown], model_version(decision), degraded
    )
    return Response(201, _encode(response))


async def reward(site: Site, request: Request) -> Response:
    """Tell what came of an event. One that comes too late is kept and not learned, without a word."""
    event_id = event_of(request)
    value = decode(request.body, _reward_request).value
    if await site.service.reward(request.loop_name, event_id, value) is EventStatus.UNKNOWN:
        raise unknown_event(event_id)
    return NO_CONTENT


async def activate(site: Site, request: Request) -> Response:
    """Let a deferred event count, whether it has one action or several."""
    event_id = event_of(request)
    if await site.service.activate(request.loop_name, event_id) is EventStatus.UNKNOWN:
        raise unknown_event(event_id)
    return NO_CONTENT


def event_of(request: Request) -> str:
    """The event that the path names."""
    event_id = request.values["event"]
    check_event(event_id)
    return event_id


def places_of(actions: Sequence[RankableAction], ids: Collection[str]) -> list[int]:
    """Where the actions of these ids are. An id that no action has is passed over: what is not there is not chosen."""
    return [place for place, action in enumerate(actions) if action.id in ids] if ids else []


def model_version(decision: Decision) -> str:
    """The model that decided: how often it was replaced, and the last decision that it had passed."""
    return f"{decision.epoch}.{decision.model}"


def ranking_of(decision: Decision) -> list[RankedAction]:
    """The action to show, then the others by their probabilities; excluded ones stay where the request had them.

    The chances are those of the action that is shown. If it is the baseline, whatever the model would do, that has 1.
    """
    chances: Sequence[float] = decision.probabilities
    if decision.mode is not Mode.ONLINE:
        chances = [float(place == decision.shown) for place in range(len(decision.actions))]
    order = sorted(range(len(chances)), key=chances.__getitem__, reverse=True)
    order.remove(decision.shown)
    order.insert(0, decision.shown)
    if decision.excluded:
        following = iter([place for place in order if place not in decision.excluded])
        order = [place if place in decision.excluded else next(following) for place in range(len(chances))]
    return [RankedAction(decision.actions[place], chances[place]) for place in order]


def unknown_event(event_id: str) -> HttpError:
    """Nothing was decided under this id, or it was deleted."""
    return HttpError(404, "ResourceNotFound", f"there is no event {event_id!r}; rank it first, with this eventId")
