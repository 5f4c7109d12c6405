"""Handlers of rewards, activations and batches."""

import asyncio
from collections.abc import Awaitable

import msgspec

from glbandits.errors import LARGEST, InvalidInput, number
from glbandits.maths.links import find_link
from glbandits.serving.domain.events import Aggregation, EventStatus
from glbandits.serving.http.http_messages import HttpError, Request, Response, as_http_error
from glbandits.serving.http.site import Site
from glbandits.serving.http.v1.decision_handlers import Content, decided, decision_request, parse_json
from glbandits.serving.http.v1.schemas import (
    ActivateRequest,
    BatchReply,
    BatchRequest,
    Decided,
    DecideOutcome,
    DecideRequest,
    EventRewardRequest,
    ItemProblem,
    Rewarded,
    RewardOutcome,
)
from glbandits.serving.runtime.learning_loop import Loop

LARGEST_BATCH = 1000
"""Decisions and rewards of a batch."""

_encode = msgspec.json.Encoder().encode
_reward_request = msgspec.json.Decoder(EventRewardRequest).decode
_activate_request = msgspec.json.Decoder(ActivateRequest).decode
_batch_request = msgspec.json.Decoder(BatchRequest).decode


async def reward(site: Site, request: Request) -> Response:
    """Tell what came of a decision."""
    sent = parse_json(_reward_request, request.body)
    return Response(200, _encode(await _rewarded(site, request.loop_name, sent)))


async def activate(site: Site, request: Request) -> Response:
    """Let a deferred decision count."""
    event_id = parse_json(_activate_request, request.body).event_id
    status = await site.service.activate(request.loop_name, event_id)
    return Response(200, _encode(_known(event_id, status)))


async def batch(site: Site, request: Request) -> Response:
    """Many of both, each with an outcome of its own."""
    sent = parse_json(_batch_request, request.body)
    size, loop = len(sent.decide) + len(sent.reward), request.loop_name
    if size > LARGEST_BATCH:
        raise InvalidInput(f"a batch may have {LARGEST_BATCH} items; got {size}. Send several")
    site.service.loop(loop)
    if sent.reward:
        site.authenticator.admit(request, "reward")
    decisions = [_outcome(_asked(site, loop, asked), request) for asked in sent.decide]
    rewards = [_outcome(_rewarded(site, loop, reward), request) for reward in sent.reward]
    # All begin in this order, so the log has the decisions before the rewards.
    decided_now, rewarded_now = await asyncio.gather(asyncio.gather(*decisions), asyncio.gather(*rewards))
    reply = BatchReply(
        decide=[DecideOutcome(decided=done, problem=problem) for done, problem in decided_now],
        reward=[RewardOutcome(rewarded=done, problem=problem) for done, problem in rewarded_now],
    )
    return Response(200, _encode(reply))


async def _asked(site: Site, loop: str, asked: DecideRequest) -> Decided:
    return decided(*await site.service.decide(loop, decision_request(asked, site.settings)))


async def _rewarded(site: Site, loop: str, sent: EventRewardRequest) -> Rewarded:
    check_reward(site.service.loop(loop), sent.value)
    return _known(sent.event_id, await site.service.reward(loop, sent.event_id, sent.value, key=sent.key))


def check_reward(loop: Loop, value: float) -> None:
    """Refuse what the loop's policy cannot learn. Of rewards that are summed, any one may be out of range."""
    number("value", value, at_least=-LARGEST)
    if loop.configuration.aggregation is not Aggregation.SUM:
        find_link(loop.published.bandit.policy.link).check_reward(value)


def _known(event_id: str, status: EventStatus) -> Rewarded:
    if status is EventStatus.UNKNOWN:
        raise HttpError(404, "UnknownEvent", f"there is no decision of the event {event_id!r} in this loop")
    return Rewarded(event_id=event_id, status=status)


async def _outcome(answer: Awaitable[Content], request: Request) -> tuple[Content | None, ItemProblem | None]:
    try:
        return await answer, None
    except Exception as error:
        refused = as_http_error(error, request)
        return None, ItemProblem(status=refused.status, code=refused.code, detail=refused.message)
