"""Handlers of rewards, metrics, activations and batches."""

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import TypeVar

from starlette.requests import Request

from glbandits.common.errors import MAX_ABS, InvalidInput, check_float
from glbandits.maths.links import find_link
from glbandits.service.domain.events import Aggregation, EventStatus
from glbandits.service.http.auth import check_loop
from glbandits.service.http.endpoint import loop_name
from glbandits.service.http.http_errors import HttpError, as_http_error
from glbandits.service.http.site import Site
from glbandits.service.http.v1 import schemas
from glbandits.service.http.v1.decision_handlers import decided, decision_request, unknown_event
from glbandits.service.runtime.loops.learning_loop import Loop

LARGEST_BATCH = 1000
"""Decisions, rewards and numbers of metrics in a batch, at most."""

Content = TypeVar("Content")


async def reward(site: Site, request: Request, sent: schemas.EventRewardRequest) -> schemas.Rewarded:
    """Store a reward of a decision."""
    return await _rewarded(site, request, sent)


async def metrics(site: Site, request: Request, sent: schemas.MetricsRequest) -> schemas.MetricsReply:
    """Store numbers of metrics for a decision."""
    return await _measured(site, request, sent)


async def activate(site: Site, request: Request, sent: schemas.ActivateRequest) -> schemas.Rewarded:
    """Activate a deferred decision, so that it is learned."""
    return _response(sent.event_id, await site.service.activate(loop_name(request), sent.event_id))


async def batch(site: Site, request: Request, sent: schemas.BatchRequest) -> schemas.BatchReply:
    """Make several decisions, and store several rewards and metrics, each with an outcome of its own."""
    loop = site.service.loop(loop_name(request))
    size = len(sent.decide) + len(sent.reward) + sum(len(item.metrics) for item in sent.metrics)
    if size > LARGEST_BATCH:
        raise InvalidInput(f"a batch may have {LARGEST_BATCH} items; got {size}. Send several batches")
    if sent.reward or sent.metrics:
        site.authenticator.check_scope(request, "reward")
    decisions = [asyncio.ensure_future(_decided(site, loop, item)) for item in sent.decide]
    if decisions and (loop.configuration.sticky or any(item.sticky for item in sent.decide)):
        await asyncio.wait(decisions)  # they read the store before they are written
    rewards = [_rewarded(site, request, item) for item in sent.reward]
    measured = [_measured(site, request, item) for item in sent.metrics]
    # The tasks start in this order, so the log has the decisions before the rewards.
    results = iter(await asyncio.gather(*decisions, *rewards, *measured, return_exceptions=True))
    return schemas.BatchReply(
        decide=[_outcome(schemas.DecideOutcome, "decided", item, request) for item in islice(results, len(decisions))],
        reward=[_outcome(schemas.RewardOutcome, "rewarded", item, request) for item in islice(results, len(rewards))],
        metrics=[_outcome(schemas.MetricsOutcome, "measured", item, request) for item in results],
    )


def _outcome(kind: Callable[..., Content], name: str, result: object, request: Request) -> Content:
    """Return the outcome of an item of a batch: a result in the field `name`, or a problem."""
    if not isinstance(result, BaseException):
        return kind(**{name: result})
    error = as_http_error(result, request)
    return kind(problem=schemas.ItemProblem(status=error.status, code=error.code, detail=error.message))


async def _decided(site: Site, loop: Loop, sent: schemas.DecideRequest) -> schemas.Decided:
    return decided(await site.service.decide(loop.name, decision_request(site, loop, sent)))


async def _rewarded(site: Site, request: Request, sent: schemas.EventRewardRequest) -> schemas.Rewarded:
    """Store a reward.

    Raises InvalidInput if the policy cannot learn it, unless rewards are summed.
    """
    loop, event_id = await _decision_of(site, request, sent)
    position, refusal = sent.position, ""
    if sent.cascade and position is None:
        raise InvalidInput("cascade needs the position of the reward in its ranking; send position too")
    try:
        check_float("value", sent.value, at_least=-MAX_ABS)
        if loop.configuration.aggregation is not Aggregation.SUM:
            find_link(loop.published.bandit.policy.link).check_reward(sent.value)
    except InvalidInput as error:
        refusal = str(error)
    slot, advice = _slot(position)
    status = await site.service.reward(
        loop.name, event_id, sent.value, slot=slot, key=sent.key, cascade=sent.cascade, refusal=refusal
    )
    return _response(event_id, status, advice)


async def _measured(site: Site, request: Request, sent: schemas.MetricsRequest) -> schemas.MetricsReply:
    loop, event_id = await _decision_of(site, request, sent)
    slot, advice = ("", "") if sent.position is None else _slot(sent.position)
    statuses = await site.service.metrics(loop.name, event_id, sent.metrics, slot=slot, key=sent.key)
    if EventStatus.UNKNOWN in statuses.values():
        raise unknown_event(event_id, advice)
    return schemas.MetricsReply(event_id=event_id, statuses=statuses)


async def _decision_of(site: Site, request: Request, sent: schemas.DecisionName) -> tuple[Loop, str]:
    """Return the loop and the event of a decision."""
    if sent.event_id is not None and sent.flag is None and sent.targeting_key is None:
        return site.service.loop(loop_name(request)), sent.event_id
    if sent.event_id is not None or sent.flag is None or sent.targeting_key is None:
        raise InvalidInput("a decision is named by eventId, or by flag and targetingKey; send either")
    check_loop(request, sent.flag)  # the path may name another one
    event_id = await site.service.last_event(sent.flag, sent.targeting_key)
    if event_id is None:
        raise HttpError(404, "UnknownEvent", f"the flag {sent.flag!r} has no decision for this targetingKey")
    return site.service.loop(sent.flag), event_id


def _slot(position: int | None) -> tuple[str, str]:
    """Return the slot of a position, and the end of the error if the log has no such decision."""
    if position is None:
        return "", "; for a ranking, send a position"
    return str(position), f" at position {position}"


def _response(event_id: str, status: EventStatus, advice: str = "") -> schemas.Rewarded:
    if status is EventStatus.UNKNOWN:
        raise unknown_event(event_id, advice)
    return schemas.Rewarded(event_id=event_id, status=status)
