"""Handlers of rank, reward and activate, for events with one action and with several slots.

Each slot is a decision of its own: the slot's features join the context, and the actions that earlier slots have got
are excluded. It is learned from its own reward.
"""

import asyncio
from collections.abc import Sequence

from glbandits.errors import InvalidInput
from glbandits.serving.domain.action_selection import JSON, described_request
from glbandits.serving.domain.event_rules import new_event_id
from glbandits.serving.domain.events import Decision, DecisionRequest, EventStatus, Mode
from glbandits.serving.domain.request_map import RequestEncoder, RequestHashing
from glbandits.serving.http.http_messages import HttpError, Request
from glbandits.serving.http.personalizer.schemas import (
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
)
from glbandits.serving.http.site import Site
from glbandits.serving.http.v1.decision_handlers import model_version
from glbandits.serving.runtime.service import DecisionResult

REWARD_RANGE = (-1.0, 1.0)
"""The rewards that Personalizer accepts, unless the loop has a range of its own."""


async def rank(site: Site, request: Request, asked: RankRequest) -> RankResponse:
    """Choose one of the actions."""
    _check_count(asked.actions, site.settings.max_actions)
    event_id = asked.event_id or new_event_id()
    question = _question(asked, event_id, asked.excluded_actions)
    decision, degraded = await site.service.decide(request.loop_name, question)
    version = model_version(decision.epoch, decision.model)
    return RankResponse(ranking_of(decision), event_id, decision.actions[decision.shown], version, degraded)


async def rank_slots(site: Site, request: Request, asked: MultiSlotRankRequest) -> MultiSlotRankResponse:
    """Choose an action for each slot, in their order.

    They are kept one after the other. A request that broke off can be sent again: the slots that were decided
    keep their actions.
    """
    _check_count(asked.actions, site.settings.max_actions)
    _check_slots(asked, site.service.loop(request.loop_name).published.encoder)
    event_id, taken, results = asked.event_id or new_event_id(), list[int](), list[DecisionResult]()
    for slot in asked.slots:
        question = _question(asked, event_id, slot.excluded_actions, slot, taken)
        result = await site.service.decide(request.loop_name, question)
        taken.append(result.decision.shown)
        results.append(result)
    first, shown = results[0].decision, [asked.actions[index].id for index in taken]
    return MultiSlotRankResponse(
        [SlotResponse(slot.id, action) for slot, action in zip(asked.slots, shown, strict=True)],
        event_id,
        model_version(first.epoch, first.model),
        any(result.degraded for result in results),
    )


def _question(
    asked: RankRequest | MultiSlotRankRequest,
    event_id: str,
    excluded_ids: Sequence[str] | None,
    slot: SlotRequest | None = None,
    taken: Sequence[int] = (),
) -> DecisionRequest:
    """The decision of an event, or of a slot. Excluded ids that no action has are ignored."""
    ids = [action.id for action in asked.actions]
    excluded = {*taken, *(ids.index(name) for name in excluded_ids or () if name in ids)}
    baseline = None if slot is None else ids.index(slot.baseline_action)
    context = feature_objects(asked.context_features)
    return DecisionRequest(
        event_id=event_id,
        slot="" if slot is None else slot.id,
        request=described_request(
            context if slot is None else context + feature_objects(slot.features),
            [feature_objects(action.features) for action in asked.actions],
        ),
        encoding=JSON,
        actions=tuple(ids),
        excluded=tuple(sorted(excluded)),
        # An earlier slot may have got it: then the first action that is left is the baseline.
        baseline=None if baseline in excluded else baseline,
        deferred=bool(asked.defer_activation),
        reward_range=REWARD_RANGE,
    )


async def reward(site: Site, request: Request, sent: RewardRequest) -> None:
    """Tell what came of an event. One that comes too late is kept and not learned, without a word."""
    event_id = _event_of(request)
    _check_known(event_id, await site.service.reward(request.loop_name, event_id, sent.value))


async def reward_slots(site: Site, request: Request, sent: MultiSlotRewardRequest) -> None:
    """Tell what came of the slots. If some are not known, the others' rewards are kept all the same."""
    event_id, loop_name = _event_of(request), request.loop_name
    statuses = await asyncio.gather(
        *(site.service.reward(loop_name, event_id, reward.value, slot=reward.slot_id) for reward in sent.reward)
    )
    for reward, status in zip(sent.reward, statuses, strict=True):
        _check_known(f"{event_id} with slot {reward.slot_id}", status)


async def activate(site: Site, request: Request) -> None:
    """Let a deferred event count, whether it has one action or several."""
    event_id = _event_of(request)
    _check_known(event_id, await site.service.activate(request.loop_name, event_id))


def _event_of(request: Request) -> str:
    event_id = request.values["event"]
    check_event(event_id)
    return event_id


def _check_known(event: str, status: EventStatus) -> None:
    if status is EventStatus.UNKNOWN:
        raise HttpError(404, "ResourceNotFound", f"there is no event {event!r}; rank it first, with this eventId")


def _check_count(actions: Sequence[RankableAction], most: int) -> None:
    if not 1 <= len(actions) <= most:
        raise InvalidInput(f"Action count should be between 1 and {most}.")


def _check_slots(asked: MultiSlotRankRequest, encoder: RequestEncoder) -> None:
    """Refuse, before the first slot is decided, what a later one could not go on with."""
    everything = {action.id for action in asked.actions}
    allowed = [everything.difference(slot.excluded_actions or ()) for slot in asked.slots]
    for index, slot in enumerate(asked.slots):
        rivals = sum(not earlier.isdisjoint(allowed[index]) for earlier in allowed[:index])
        if len(allowed[index]) <= rivals:
            raise InvalidInput(
                f"Slot {slot.id!r} may be left without an action: it allows {len(allowed[index])}, and {rivals} "
                "earlier slots may take one of them. Send more actions, or exclude fewer."
            )
        if isinstance(encoder, RequestHashing):
            encoder.hashing.rows(feature_objects(slot.features), [])


def ranking_of(decision: Decision) -> list[RankedAction]:
    """The action to show, then the others by their probabilities; excluded ones stay where the request had them.

    If the baseline is shown, whatever the model would do, its probability is 1.
    """
    probabilities: Sequence[float] = decision.probabilities
    if decision.mode is not Mode.ONLINE:
        probabilities = [float(index == decision.shown) for index in range(len(decision.actions))]
    order = sorted(range(len(probabilities)), key=probabilities.__getitem__, reverse=True)
    order.remove(decision.shown)
    order.insert(0, decision.shown)
    if decision.excluded:
        following = iter([index for index in order if index not in decision.excluded])
        order = [index if index in decision.excluded else next(following) for index in range(len(probabilities))]
    return [RankedAction(decision.actions[index], probabilities[index]) for index in order]
