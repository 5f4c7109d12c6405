"""Handlers of rank, reward and activate."""

import msgspec
from starlette.requests import Request

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.event_rules import new_event_id
from glbandits.service.domain.events import Decision, DecisionRequest, EventStatus
from glbandits.service.domain.request_features import (
    JSON,
    RequestEncoder,
    check_arm_names,
    joined_json_request,
)
from glbandits.service.http.endpoint import loop_name
from glbandits.service.http.http_errors import HttpError
from glbandits.service.http.personalizer.schemas import (
    RankedAction,
    RankOf,
    RankResponse,
    RewardRequest,
    SentAction,
    check_event,
    feature_objects,
    feature_texts,
    reward_refusal,
)
from glbandits.service.http.site import Site
from glbandits.service.http.v1.decision_handlers import model_version

REWARD_RANGE = (-1.0, 1.0)
"""The reward range of events ranked through this API, unless the loop has one. `reward_refusal` applies in any case."""


async def rank(site: Site, request: Request, sent: RankOf[SentAction]) -> RankResponse:
    """Choose one of several actions."""
    if not 1 <= len(sent.actions) <= site.settings.max_actions:
        raise InvalidInput(f"Action count should be between 1 and {site.settings.max_actions}.")
    loop = site.service.loop(loop_name(request))
    decision, degraded = await site.service.decide(loop.name, _decision_request(sent, loop.published.encoder))
    version = model_version(decision.epoch, decision.learned_through)
    return RankResponse(ranking_of(decision), decision.event_id, decision.actions[decision.shown], version, degraded)


def _decision_request(sent: RankOf[SentAction], encoder: RequestEncoder) -> DecisionRequest:
    """Return the decision request of an event. Unknown excluded ids are ignored."""
    ids, texts = [action.id for action in sent.actions], feature_texts(sent.actions)
    check_arm_names(map(msgspec.json.decode, texts), ids, encoder)
    excluded = {ids.index(name) for name in sent.excluded_actions or () if name in ids}
    return DecisionRequest(
        event_id=sent.event_id or new_event_id(),
        request=joined_json_request(msgspec.json.encode(feature_objects(sent.context_features)), texts),
        encoding=JSON,
        actions=tuple(ids),
        excluded=tuple(sorted(excluded)),
        deferred=bool(sent.defer_activation),
        reward_range=REWARD_RANGE,
    )


async def reward(site: Site, request: Request, sent: RewardRequest) -> None:
    """Store the reward of an event.

    A late reward is stored but not learned, and gets the same response.
    """
    event_id = _event_of(request)
    refusal = reward_refusal(sent.value)
    _check_known(event_id, await site.service.reward(loop_name(request), event_id, sent.value, refusal=refusal))


async def activate(site: Site, request: Request) -> None:
    """Activate a deferred event, so that it is learned."""
    event_id = _event_of(request)
    _check_known(event_id, await site.service.activate(loop_name(request), event_id))


def _event_of(request: Request) -> str:
    event_id: str = request.path_params["event"]
    check_event(event_id)
    return event_id


def _check_known(event: str, status: EventStatus) -> None:
    if status is EventStatus.UNKNOWN:
        raise HttpError(
            404, "ResourceNotFound", f"there is no event {event!r}; send a rank request with this eventId first"
        )


def ranking_of(decision: Decision) -> list[RankedAction]:
    """Return the shown action, then the others by probability.

    Excluded actions keep their index in the request. If the baseline is always shown, its probability is 1.
    """
    probabilities = decision.shown_probabilities()
    order = sorted(range(len(probabilities)), key=probabilities.__getitem__, reverse=True)
    order.remove(decision.shown)
    order.insert(0, decision.shown)
    if decision.excluded:
        following = iter([index for index in order if index not in decision.excluded])
        order = [index if index in decision.excluded else next(following) for index in range(len(probabilities))]
    return [RankedAction(decision.actions[index], probabilities[index]) for index in order]
