"""Handlers of rank, reward and activate, for events with one slot and with several.

Each slot is a decision of its own, with its own reward. The features of the slot are added to the context, and actions
of earlier slots are excluded.
"""

import asyncio
from collections.abc import Sequence

from starlette.requests import Request

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.event_rules import new_event_id
from glbandits.service.domain.events import Decision, DecisionRequest, EventStatus
from glbandits.service.domain.request_features import (
    JSON,
    RequestEncoder,
    RequestHashing,
    check_arm_names,
    encode_json_request,
)
from glbandits.service.http.endpoint import loop_name
from glbandits.service.http.http_errors import HttpError
from glbandits.service.http.personalizer.schemas import (
    MultiSlotRankRequest,
    MultiSlotRankResponse,
    MultiSlotRewardRequest,
    RankableAction,
    RankedAction,
    RankRequest,
    RankResponse,
    RewardRequest,
    SlotRequest,
    SlotResponse,
    check_event,
    feature_objects,
    reward_refusal,
)
from glbandits.service.http.site import Site
from glbandits.service.http.v1.decision_handlers import model_version
from glbandits.service.runtime.loops.learning_loop import Loop

REWARD_RANGE = (-1.0, 1.0)
"""The reward range of events ranked through this API, unless the loop has one. `reward_refusal` applies in any case."""


async def rank(site: Site, request: Request, sent: RankRequest) -> RankResponse:
    """Choose one of several actions."""
    loop, event_id = _loop_of(site, request, sent.actions), sent.event_id or new_event_id()
    decision, degraded = await site.service.decide(loop.name, _decision_request(sent, event_id, sent.excluded_actions))
    version = model_version(decision.epoch, decision.learned_through)
    return RankResponse(ranking_of(decision), event_id, decision.actions[decision.shown], version, degraded)


async def rank_slots(site: Site, request: Request, sent: MultiSlotRankRequest) -> MultiSlotRankResponse:
    """Choose an action for each slot, in the order of the slots, see `Service.decide_slots`."""
    loop = _loop_of(site, request, sent.actions)
    _check_slots(sent, loop.published.encoder)
    event_id = sent.event_id or new_event_id()
    requests = [_decision_request(sent, event_id, slot.excluded_actions, slot) for slot in sent.slots]
    results = await site.service.decide_slots(loop.name, requests)
    first, shown = results[0].decision, [sent.actions[result.decision.shown].id for result in results]
    return MultiSlotRankResponse(
        [SlotResponse(slot.id, action) for slot, action in zip(sent.slots, shown, strict=True)],
        event_id,
        model_version(first.epoch, first.learned_through),
        any(result.degraded for result in results),
    )


def _loop_of(site: Site, request: Request, actions: Sequence[RankableAction]) -> Loop:
    """Return the loop of a rank request. Raises InvalidInput if it cannot choose among the actions."""
    if not 1 <= len(actions) <= site.settings.max_actions:
        raise InvalidInput(f"Action count should be between 1 and {site.settings.max_actions}.")
    loop, features = site.service.loop(loop_name(request)), [feature_objects(action.features) for action in actions]
    check_arm_names(features, [action.id for action in actions], loop.published.encoder)
    return loop


def _decision_request(
    sent: RankRequest | MultiSlotRankRequest,
    event_id: str,
    excluded_ids: Sequence[str] | None,
    slot: SlotRequest | None = None,
) -> DecisionRequest:
    """Return the decision request of an event or of a slot. Unknown excluded ids are ignored."""
    ids = [action.id for action in sent.actions]
    excluded = {ids.index(name) for name in excluded_ids or () if name in ids}
    baseline = None if slot is None else ids.index(slot.baseline_action)
    context = feature_objects(sent.context_features)
    return DecisionRequest(
        event_id=event_id,
        slot="" if slot is None else slot.id,
        request=encode_json_request(
            context if slot is None else context + feature_objects(slot.features),
            [feature_objects(action.features) for action in sent.actions],
        ),
        encoding=JSON,
        actions=tuple(ids),
        excluded=tuple(sorted(excluded)),
        baseline=baseline,
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


async def reward_slots(site: Site, request: Request, sent: MultiSlotRewardRequest) -> None:
    """Store the rewards of slots.

    If a reward is not between -1 and 1, none is stored. If a slot is unknown or its reward is outside the range of its
    decision, the rewards of the others are stored all the same.
    """
    event_id, name = _event_of(request), loop_name(request)
    refused = [reward for reward in sent.reward if reward_refusal(reward.value)]
    rewards = refused or sent.reward  # refused ones are only counted
    results = await asyncio.gather(
        *(
            site.service.reward(name, event_id, reward.value, slot=reward.slot_id, refusal=reward_refusal(reward.value))
            for reward in rewards
        ),
        return_exceptions=True,
    )
    for reward, result in zip(rewards, results, strict=True):
        if isinstance(result, InvalidInput):
            raise InvalidInput(f"Slot {reward.slot_id!r}: {result}")
        if isinstance(result, BaseException):
            raise result
        _check_known(f"{event_id} with slot {reward.slot_id}", result)


async def activate(site: Site, request: Request) -> None:
    """Activate a deferred event with one or several slots, so that it is learned."""
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


def _check_slots(sent: MultiSlotRankRequest, encoder: RequestEncoder) -> None:
    """Raise InvalidInput if a later slot could not be decided. Called before the first one."""
    everything = {action.id for action in sent.actions}
    allowed = [everything.difference(slot.excluded_actions or ()) for slot in sent.slots]
    for index, slot in enumerate(sent.slots):
        earlier_slots = sum(not earlier.isdisjoint(allowed[index]) for earlier in allowed[:index])
        if len(allowed[index]) <= earlier_slots:
            raise InvalidInput(
                f"Slot {slot.id!r} may be left without an action: it allows {len(allowed[index])}, and {earlier_slots} "
                "earlier slots may take one of them. Send more actions, or exclude fewer."
            )
        if isinstance(encoder, RequestHashing):
            encoder.hashing.rows(feature_objects(slot.features), [])


def ranking_of(decision: Decision) -> list[RankedAction]:
    """Return the shown action, then the others by probability.

    Excluded actions keep their index in the request. If the baseline is always shown, its probability is 1.
    """
    probabilities = [decision.probability_of(index) for index in range(len(decision.actions))]
    order = sorted(range(len(probabilities)), key=lambda index: (index != decision.shown, -probabilities[index]))
    if decision.excluded:
        following = iter([index for index in order if index not in decision.excluded])
        order = [index if index in decision.excluded else next(following) for index in range(len(probabilities))]
    return [RankedAction(decision.actions[index], probabilities[index]) for index in order]
