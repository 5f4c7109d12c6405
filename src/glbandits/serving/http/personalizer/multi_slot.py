"""Rank and reward of events with several places, each of which gets another action.

Each slot is a decision of its own: the slot's features join the context, and the actions that earlier slots have got
are excluded. It is learned from its own reward.
"""

import asyncio

import msgspec

from glbandits.errors import InvalidInput
from glbandits.features import Hashing
from glbandits.serving.domain.action_selection import JSON, described_request
from glbandits.serving.domain.event_rules import new_event_id
from glbandits.serving.domain.events import DecisionRequest, EventStatus
from glbandits.serving.http.http_messages import NO_CONTENT, Request, Response
from glbandits.serving.http.personalizer.rank_handlers import (
    REWARD_RANGE,
    event_of,
    model_version,
    places_of,
    unknown_event,
)
from glbandits.serving.http.personalizer.schemas import (
    MultiSlotRankRequest,
    MultiSlotRankResponse,
    MultiSlotRewardRequest,
    SlotRequest,
    SlotResponse,
    check_count,
    decode,
    feature_objects,
)
from glbandits.serving.http.site import Site
from glbandits.serving.runtime.service import DecisionResult

_rank_request = msgspec.json.Decoder(MultiSlotRankRequest)
_reward_request = msgspec.json.Decoder(MultiSlotRewardRequest)


async def rank(site: Site, request: Request) -> Response:
    """Choose an action for each slot, in their order.

    They are kept one after the other. A request that broke off can be sent again: the slots that were decided
    keep their actions.
    """
    asked, loop = decode(request.body, _rank_request), request.loop_name
    check_count(asked.actions, site.settings.max_actions)
    _check_slots(asked, site.service.loop(loop).published.hashing)
    event_id, taken, answers = asked.event_id or new_event_id(), list[int](), list[DecisionResult]()
    for slot in asked.slots:
        answer = await _decide(site, loop, asked, slot, event_id, taken)
        taken.append(answer.decision.shown)
        answers.append(answer)
    shown = [answer.decision.actions[answer.decision.shown] for answer in answers]
    response = MultiSlotRankResponse(
        [SlotResponse(slot.id, action) for slot, action in zip(asked.slots, shown, strict=True)],
        event_id,
        model_version(answers[0].decision),
        any(answer.degraded for answer in answers),
    )
    return Response(201, msgspec.json.encode(response))


async def _decide(
    site: Site, loop: str, asked: MultiSlotRankRequest, slot: SlotRequest, event_id: str, taken: list[int]
) -> DecisionResult:
    excluded = sorted({*taken, *places_of(asked.actions, slot.excluded_actions or ())})
    (baseline,) = places_of(asked.actions, [slot.baseline_action])
    question = DecisionRequest(
        event_id=event_id,
        slot=slot.id,
        request=described_request(
            [*feature_objects(asked.context_features), *feature_objects(slot.features)],
            [feature_objects(action.features) for action in asked.actions],
        ),
        encoding=JSON,
        actions=tuple(action.id for action in asked.actions),
        excluded=tuple(excluded),
        # An earlier slot may have got it: then the first action that is left is the baseline.
        baseline=None if baseline in excluded else baseline,
        deferred=bool(asked.defer_activation),
        reward_range=REWARD_RANGE,
    )
    return await site.service.decide(loop, question)


async def reward(site: Site, request: Request) -> Response:
    """Tell what came of the slots. If some are not known, the others' rewards are kept all the same."""
    event_id, loop = event_of(request), request.loop_name
    rewards = decode(request.body, _reward_request).reward
    statuses = await asyncio.gather(
        *(site.service.reward(loop, event_id, reward.value, slot=reward.slot_id) for reward in rewards)
    )
    unknown = [
        reward.slot_id for reward, status in zip(rewards, statuses, strict=True) if status is EventStatus.UNKNOWN
    ]
    if unknown:
        raise unknown_event(f"{event_id} with slot {unknown[0]}")
    return NO_CONTENT


def _check_slots(asked: MultiSlotRankRequest, hashing: Hashing) -> None:
    """Refuse, before the first slot is decided, what a later one could not go on with."""
    everything = {action.id for action in asked.actions}
    allowed = [everything.difference(slot.excluded_actions or ()) for slot in asked.slots]
    for place, slot in enumerate(asked.slots):
        rivals = sum(not earlier.isdisjoint(allowed[place]) for earlier in allowed[:place])
        if len(allowed[place]) <= rivals:
            raise InvalidInput(
                f"Slot {slot.id!r} may be left without an action: it allows {len(allowed[place])}, and {rivals} "
                "earlier slots may take one of them. Send more actions, or exclude fewer."
            )
        hashing.vectors(feature_objects(slot.features), [])
