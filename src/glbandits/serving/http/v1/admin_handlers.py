"""Handlers of the state and the configuration of loops. They use the store in threads, so decisions do not wait."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np

from glbandits.errors import InvalidInput
from glbandits.serving.domain.action_selection import DENSE
from glbandits.serving.domain.events import Decision, LoggedDecision
from glbandits.serving.domain.loop_config import SECOND, LoopConfig
from glbandits.serving.http.http_messages import HttpError, Request, Response
from glbandits.serving.http.site import Site
from glbandits.serving.http.v1.decision_handlers import FLOATS_TYPE, model_version, parse_json, whole_number
from glbandits.serving.http.v1.schemas import (
    Counts,
    EventRecord,
    EventReward,
    Events,
    LoopConfiguration,
    Loops,
    Status,
)
from glbandits.serving.storage.event_store import EventStore

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
PAGE, LARGEST_PAGE = 50, 500
"""Events of a page, if it is not said how many, and at most."""
FULL_PAGE, AT_A_TIME = 2 * 1024 * 1024, 10
"""Bytes of features after which a page has no more events, and events that are read before they are looked at."""
_settings = msgspec.json.Decoder(dict[str, Any]).decode


async def loops(site: Site, request: Request) -> Response:  # noqa: ARG001 - as all handlers
    """The names of all loops."""
    return _response(Loops(loops=sorted(site.service.loops)))


async def status(site: Site, request: Request) -> Response:
    """How a loop is doing."""
    loop = site.service.loop(request.loop_name)
    summary = await asyncio.to_thread(site.service.store.summary, loop.name)
    model, configuration = loop.published, loop.configuration
    return _response(
        Status(
            loop=loop.name,
            policy=configuration.policy,
            width=configuration.width,
            mode=configuration.mode,
            model_version=model_version(model.epoch, model.sequence),
            learned_to=model.sequence,
            learning_failed=site.service.learning_failed,
            queue=site.service.writer.depth,
            first_at=None if summary.first_at is None else moment(summary.first_at),
            last_at=None if summary.last_at is None else moment(summary.last_at),
            counts=Counts(decisions=summary.decisions, rewards=summary.rewards, activations=summary.activations),
        )
    )


async def configuration(site: Site, request: Request) -> Response:
    """The settings of a loop."""
    return _response(_shown(site.service.loop(request.loop_name).configuration))


async def configure(site: Site, request: Request) -> Response:
    """Put other settings in place of all; those left out get their defaults."""
    return await _configure(site, request, lambda _: LoopConfiguration())


async def change(site: Site, request: Request) -> Response:
    """Put others in place of the settings that are named; the rest stays."""
    return await _configure(site, request, _shown)


async def _configure(site: Site, request: Request, before: Callable[[LoopConfig], LoopConfiguration]) -> Response:
    loop, sent = site.service.loop(request.loop_name), parse_json(_settings, request.body)

    def changed(kept: LoopConfig) -> LoopConfig:
        try:
            wire = msgspec.convert(msgspec.to_builtins(before(kept)) | sent, LoopConfiguration)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"the configuration cannot be used: {error}") from None
        return LoopConfig(**msgspec.structs.asdict(wire))

    return _response(_shown(await asyncio.to_thread(loop.reconfigure, changed)))


async def event(site: Site, request: Request) -> Response:
    """A decision, with all that came of it."""
    loop = site.service.loop(request.loop_name).name
    event_id, slot = request.values["event"], request.parameters().get("slot", "")

    def read() -> Response:
        found = site.service.store.decision(loop, event_id, slot)
        if found is None:
            raise unknown_event(event_id)
        return _response(record_of(found))

    return await asyncio.to_thread(read)


def unknown_event(event_id: str) -> HttpError:
    """The error for an event that the log does not have."""
    return HttpError(404, "UnknownEvent", f"there is no decision of the event {event_id!r} in this loop")


async def events(site: Site, request: Request) -> Response:
    """The newest decisions whose event ids begin with a prefix."""
    loop, parameters = site.service.loop(request.loop_name).name, request.parameters()
    limit = whole_number(parameters.get("limit", str(PAGE)), "limit")
    if not 1 <= limit <= LARGEST_PAGE:
        raise InvalidInput(f"limit must be 1 to {LARGEST_PAGE}; got {limit}")
    before = whole_number(parameters["before"], "before") if "before" in parameters else None
    prefix, store = parameters.get("prefix", ""), site.service.store
    return await asyncio.to_thread(lambda: _response(page_of(store, loop, prefix, limit, before)))


def page_of(store: EventStore, loop: str, prefix: str, limit: int, before: int | None) -> Events:
    """The newest events, at most so many, and fewer if they are large: neither memory nor decisions suffer by it."""
    page, size = list[EventRecord](), 0
    while len(page) < limit and size < FULL_PAGE:
        wanted = min(AT_A_TIME, limit - len(page))
        found = store.search(loop, prefix, wanted, before)
        page += map(record_of, found)
        size += sum(len(one.decision.request) for one in found)
        if len(found) < wanted:
            return Events(events=page, before=None)
        before = found[-1].sequence
    return Events(events=page, before=before)


async def model(site: Site, request: Request) -> Response:
    """The model that decides now, as a safetensors file that `Bandit.load` reads."""
    content = await asyncio.to_thread(site.service.loop(request.loop_name).export_model)
    return Response(200, content, FLOATS_TYPE)


def moment(at: int) -> datetime:
    """Microseconds since 1970 as a date."""
    return BEGINNING + timedelta(microseconds=at)


def record_of(logged: LoggedDecision) -> EventRecord:
    """A decision of the log as it is shown."""
    decision = logged.decision
    return EventRecord(
        number=logged.sequence,
        event_id=decision.event_id,
        slot=decision.slot,
        at=moment(decision.timestamp),
        actions=decision.actions,
        excluded=decision.excluded,
        shown=decision.shown,
        chosen=decision.chosen,
        probability=decision.probability,
        probabilities=decision.probabilities,
        model_version=model_version(decision.epoch, decision.model),
        mode=decision.mode,
        deferred=decision.deferred,
        activated_at=None if logged.activated_at is None else moment(logged.activated_at),
        rewards=[
            EventReward(number=one.sequence, at=moment(one.timestamp), value=one.value, key=one.key, late=one.late)
            for one in logged.rewards
        ],
        wait=decision.reward_window / SECOND,
        default_reward=decision.default_reward,
        aggregation=decision.aggregation,
        exploration=decision.exploration,
        seed=str(decision.seed),
        encoding=decision.encoding,
        features=_features(decision),
    )


def _features(decision: Decision) -> Any:
    if decision.encoding != DENSE:
        return msgspec.Raw(decision.request)
    return np.frombuffer(decision.request).reshape(len(decision.actions), -1).tolist()


def _shown(configuration: LoopConfig) -> LoopConfiguration:
    return LoopConfiguration(**msgspec.structs.asdict(configuration))


def _response(content: Any) -> Response:
    return Response(200, msgspec.json.encode(content))
