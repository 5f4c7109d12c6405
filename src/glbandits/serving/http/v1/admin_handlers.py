"""Handlers of the state, the configuration and the log of loops. They use the store in threads: decisions go on."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np

from glbandits.errors import InvalidInput
from glbandits.features import Hashing
from glbandits.serving.domain.events import Decision
from glbandits.serving.domain.explanation import explain
from glbandits.serving.domain.loop_config import SECOND, LoopConfig
from glbandits.serving.domain.request_features import DENSE
from glbandits.serving.http.http_messages import Request, Response
from glbandits.serving.http.site import Site
from glbandits.serving.http.v1 import schemas
from glbandits.serving.http.v1.decision_handlers import (
    FLOATS_TYPE,
    model_version,
    parse_json,
    unknown_event,
    whole_number,
)
from glbandits.serving.runtime.learning_loop import Published
from glbandits.serving.runtime.relearning import model_that_decided
from glbandits.serving.storage.event_store import EventStore, LoggedDecision

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
PAGE, LARGEST_PAGE = 50, 500
"""Events of a page by default, and at most."""
FEATURES, MOST_FEATURES = 20, 200
"""Features that an explanation lists for each action by default, and at most."""
MOST_RELEARNED = 10_000
"""Decisions that are learned again to get the model that decided. They take 1.2 s to 1.7 s."""
FULL_PAGE, AT_A_TIME = 2 * 1024 * 1024, 10
"""Bytes of features after which a page has no more events, and events that are read before they are looked at."""
_settings = msgspec.json.Decoder(dict[str, Any]).decode


async def loops(site: Site, request: Request) -> Response:  # noqa: ARG001 - as all handlers
    """The names of all loops."""
    return _response(schemas.Loops(loops=sorted(site.service.loops)))


async def status(site: Site, request: Request) -> Response:
    """How a loop is doing."""
    loop = site.service.loop(request.loop_name)
    summary = await asyncio.to_thread(site.service.store.summary, loop.name)
    model, configuration = loop.published, loop.configuration
    return _response(
        schemas.Status(
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
            counts=schemas.Counts(
                decisions=summary.decisions, rewards=summary.rewards, activations=summary.activations
            ),
        )
    )


async def configuration(site: Site, request: Request) -> Response:
    """The settings of a loop."""
    return _response(_shown(site.service.loop(request.loop_name).configuration))


async def configure(site: Site, request: Request) -> Response:
    """Put other settings in place of all; those left out get their defaults."""
    return await _configure(site, request, lambda _: schemas.LoopConfiguration())


async def change(site: Site, request: Request) -> Response:
    """Put others in place of the settings that are named; the rest stays."""
    return await _configure(site, request, _shown)


async def _configure(
    site: Site, request: Request, before: Callable[[LoopConfig], schemas.LoopConfiguration]
) -> Response:
    loop, sent = site.service.loop(request.loop_name), parse_json(_settings, request.body)

    def changed(current: LoopConfig) -> LoopConfig:
        try:
            wire = msgspec.convert(msgspec.to_builtins(before(current)) | sent, schemas.LoopConfiguration)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"the configuration cannot be used: {error}") from None
        return LoopConfig(**msgspec.structs.asdict(wire))

    return _response(_shown(await asyncio.to_thread(loop.reconfigure, changed)))


async def event(site: Site, request: Request) -> Response:
    """A decision, with all that came of it."""
    loop = site.service.loop(request.loop_name).name
    event_id, slot = request.values["event"], request.parameters().get("slot", "")

    def read() -> Response:
        logged = site.service.store.decision(loop, event_id, slot)
        if logged is None:
            raise unknown_event(event_id)
        return _response(record_of(logged))

    return await asyncio.to_thread(read)


async def events(site: Site, request: Request) -> Response:
    """The newest decisions whose event ids begin with a prefix."""
    loop, parameters = site.service.loop(request.loop_name).name, request.parameters()
    limit = _limit(parameters, PAGE, LARGEST_PAGE)
    before = whole_number(parameters["before"], "before") if "before" in parameters else None
    prefix, store = parameters.get("prefix", ""), site.service.store
    return await asyncio.to_thread(lambda: _response(page_of(store, loop, prefix, limit, before)))


def _limit(parameters: dict[str, str], default: int, most: int) -> int:
    limit = whole_number(parameters.get("limit", str(default)), "limit")
    if not 1 <= limit <= most:
        raise InvalidInput(f"limit must be 1 to {most}; got {limit}")
    return limit


def page_of(store: EventStore, loop: str, prefix: str, limit: int, before: int | None) -> schemas.Events:
    """The newest events, at most so many, and fewer if they are large: neither memory nor decisions suffer by it."""
    page, size = list[schemas.EventRecord](), 0
    while len(page) < limit and size < FULL_PAGE:
        wanted = min(AT_A_TIME, limit - len(page))
        decisions = store.search(loop, prefix, wanted, before)
        page += map(record_of, decisions)
        size += sum(len(logged.decision.request) for logged in decisions)
        if len(decisions) < wanted:
            return schemas.Events(events=page, before=None)
        before = decisions[-1].sequence
    return schemas.Events(events=page, before=before)


async def model(site: Site, request: Request) -> Response:
    """The model that decides now, as a safetensors file that `Bandit.load` reads."""
    content = await asyncio.to_thread(site.service.loop(request.loop_name).export_model)
    return Response(200, content, FLOATS_TYPE)


def moment(at: int) -> datetime:
    """Microseconds since 1970 as a date."""
    return BEGINNING + timedelta(microseconds=at)


def record_of(logged: LoggedDecision) -> schemas.EventRecord:
    """A decision of the log as it is shown."""
    decision = logged.decision
    same = {name: getattr(decision, name) for name in schemas.EventRecord.__struct_fields__ if hasattr(decision, name)}
    rewards = [
        schemas.EventReward(number=one.sequence, at=moment(one.timestamp), value=one.value, key=one.key, late=one.late)
        for one in logged.rewards
    ]
    return schemas.EventRecord(
        **same | {"seed": str(decision.seed)},
        number=logged.sequence,
        at=moment(decision.timestamp),
        model_version=model_version(decision.epoch, decision.model),
        activated_at=None if logged.activated_at is None else moment(logged.activated_at),
        rewards=rewards,
        wait=decision.reward_window / SECOND,
        features=_features(decision),
    )


def _features(decision: Decision) -> Any:
    if decision.encoding != DENSE:
        return msgspec.Raw(decision.request)
    return np.frombuffer(decision.request).reshape(len(decision.actions), -1).tolist()


async def explanation(site: Site, request: Request) -> Response:
    """Why the actions of an event got their scores: what each feature contributed."""
    limit = _limit(request.parameters(), FEATURES, MOST_FEATURES)
    loop, store, event_id = site.service.loop(request.loop_name), site.service.store, request.values["event"]

    def read() -> Response:
        decisions = [logged.decision for logged in store.decisions_of(loop.name, event_id)]
        if not decisions:
            raise unknown_event(event_id)
        return _response(_explanation(decisions, store, loop.published, limit))

    async with site.explanations:  # one at a time
        return await asyncio.to_thread(read)


def _explanation(decisions: list[Decision], store: EventStore, published: Published, limit: int) -> schemas.Explanation:
    """Explain all decisions of an event, each by the model that made it, or else by the published one."""
    models, slots = {(published.epoch, published.sequence): published}, []
    for decision in decisions:
        version = (decision.epoch, decision.model)
        if version not in models:
            bandit = model_that_decided(store, decision, MOST_RELEARNED)
            models[version] = published if bandit is None else Published(*version, bandit, Hashing(width=bandit.dim))
        slots.append(_slot(decision, models[version], limit))
    decided_by = [model_version(decision.epoch, decision.model) for decision in decisions]
    return schemas.Explanation(
        event_id=decisions[0].event_id,
        model_version=decided_by[0],
        exact=[slot.explained_by for slot in slots] == decided_by,
        slots=slots,
    )


def _slot(decision: Decision, model: Published, limit: int) -> schemas.ExplainedSlot:
    actions = [
        schemas.ExplainedAction(
            **msgspec.structs.asdict(action), shown=index == decision.shown, chosen=index == decision.chosen
        )
        for index, action in enumerate(explain(decision, model.bandit, model.hashing, limit))
    ]
    return schemas.ExplainedSlot(
        slot=decision.slot, explained_by=model_version(model.epoch, model.sequence), actions=actions
    )


def _shown(configuration: LoopConfig) -> schemas.LoopConfiguration:
    return schemas.LoopConfiguration(**msgspec.structs.asdict(configuration))


def _response(content: Any) -> Response:
    return Response(200, msgspec.json.encode(content))
