"""Handlers of the status, the log and the model of loops."""

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.events import Decision, LoggedDecision, as_datetime
from glbandits.service.domain.explanation import explain
from glbandits.service.domain.loop_config import SECOND
from glbandits.service.domain.model_snapshots import PublishedModel
from glbandits.service.domain.request_features import DENSE, encoder_of
from glbandits.service.http.endpoint import BYTES_TYPE, JSON_TYPE, encode_json, loop_name
from glbandits.service.http.site import Site
from glbandits.service.http.v1 import schemas
from glbandits.service.http.v1.configuration_handlers import changed_configuration, relearning_of
from glbandits.service.http.v1.decision_handlers import (
    model_version,
    page_limit,
    parse_integer,
    unknown_event,
)
from glbandits.service.runtime.replay.relearning import model_that_decided
from glbandits.service.storage.event_store import NO_REWARDS, RewardPage

PAGE, LARGEST_PAGE = 50, 500
"""Events in a page by default, and at most."""
FEATURES, MAX_FEATURES = 20, 200
"""Features that an explanation lists for each action, by default and at most."""
MAX_RELEARNED = 10_000
"""Decisions that are learned again, at most, to compute the model that decided. They take 1.2 s to 1.7 s."""
FULL_PAGE, EVENTS_PER_READ = 2 * 1024 * 1024, 10
"""Bytes of features and rewards after which a page is full, and events that are read before its size is checked."""
MOST_REWARDS, REWARD_BYTES = 1000, 150
"""Rewards and numbers of metrics that an event is sent with, and the size of one."""


async def loops(site: Site, request: Request) -> schemas.Loops:
    """Return the names of all loops that the key may use."""
    return schemas.Loops(loops=sorted(filter(request.state.key.may_use, site.service.loops)))


def create_loop(site: Site, request: Request, sent: schemas.NewLoop) -> schemas.Status:  # noqa: ARG001
    """Create a loop. When the response comes, all servers of the store serve it."""
    site.service.create_loop(sent.name, changed_configuration(site.service.first_configuration, sent.configuration))
    return _status(site, sent.name)


def delete_loop(site: Site, request: Request) -> None:
    """Delete a loop with its log, models and settings. A loop of the server's setting `loops` is refused."""
    site.service.delete_loop(loop_name(request))


def status(site: Site, request: Request) -> schemas.Status:
    """Return the status of a loop."""
    return _status(site, loop_name(request))


def _status(site: Site, name: str) -> schemas.Status:
    loop = site.service.loop(name)
    summary, model, configuration = site.service.store.summary(loop.name), loop.published, loop.configuration
    return schemas.Status(
        loop=loop.name,
        policy=configuration.policy,
        width=configuration.width,
        sparse=model.bandit.sparse,
        mode=configuration.mode,
        model_version=model_version(model.epoch, model.learned_through),
        learned_to=model.learned_through,
        learning_failed=site.service.learning_failed,
        warnings=loop.warnings(),
        queue=site.service.writer.depth,
        first_at=None if summary.first_at is None else as_datetime(summary.first_at),
        last_at=None if summary.last_at is None else as_datetime(summary.last_at),
        counts=msgspec.convert(summary, schemas.Counts, from_attributes=True),
        relearning=relearning_of(loop),
    )


def event(site: Site, request: Request) -> schemas.EventRecord:
    """Return a decision with its rewards and its activation, at most `MOST_REWARDS` rewards at a time."""
    loop, event_id = site.service.loop(loop_name(request)), request.path_params["event"]
    store, parameters = site.service.store, request.query_params
    after = parse_integer(parameters["rewardsAfter"], "rewardsAfter") if "rewardsAfter" in parameters else 0
    page = RewardPage(after, MOST_REWARDS + 1)
    logged = store.decision(loop.name, event_id, parameters.get("slot", ""), page)
    if logged is None:
        slots = [other.decision.slot for other in store.decisions_of(loop.name, event_id, NO_REWARDS)]
        if not slots:
            raise unknown_event(event_id)
        if slots == [""]:
            raise InvalidInput(f"the event {event_id!r} has no slots; leave out slot=")
        raise InvalidInput(f"the event {event_id!r} has several slots; add slot= with one of {', '.join(slots)}")
    return record_of(logged)


def events(site: Site, request: Request) -> schemas.EventPage:
    """Return the newest decisions whose event ids begin with a prefix, a page at a time.

    A page of large decisions has fewer than the limit, to bound memory and time.
    """
    loop, parameters = site.service.loop(loop_name(request)), request.query_params
    limit = page_limit(parameters, PAGE, LARGEST_PAGE)
    before = parse_integer(parameters["before"], "before") if "before" in parameters else None
    store, page, size, read = site.service.store, list[schemas.EventRecord](), 0, 0
    found = store.find(loop.name, parameters.get("prefix", ""), limit, before)  # once, because it may read many ids
    while read < len(found) and size < FULL_PAGE:
        decisions = store.look_up(found[read : read + EVENTS_PER_READ], RewardPage(limit=MOST_REWARDS + 1))
        page += map(record_of, decisions)
        size += sum(len(logged.decision.request) + REWARD_BYTES * len(logged.rewards) for logged in decisions)
        read += EVENTS_PER_READ
    is_last = len(found) < limit and read >= len(found)
    return schemas.EventPage(events=page, before=None if is_last else found[min(read, len(found)) - 1])


async def model(site: Site, request: Request) -> Response:
    """Return the present model as a safetensors file, for `Bandit.load`."""
    content = await site.read(site.service.loop(loop_name(request)).export_model)
    return Response(content, media_type=BYTES_TYPE)


def record_of(logged: LoggedDecision) -> schemas.EventRecord:
    """Return a logged decision as it is sent. Of more than `MOST_REWARDS` rewards the last ones are left out."""
    decision = logged.decision
    same = {name: getattr(decision, name) for name in schemas.EventRecord.__struct_fields__ if hasattr(decision, name)}
    rewards = [
        schemas.EventReward(
            number=reward.sequence,
            at=as_datetime(reward.timestamp),
            value=reward.value,
            metric=reward.metric,
            key=reward.key,
            late=reward.late,
        )
        for reward in logged.rewards[:MOST_REWARDS]
    ]
    request, is_dense = decision.request, decision.encoding == DENSE
    return schemas.EventRecord(
        **same | {"seed": str(decision.seed)},
        number=logged.sequence,
        at=as_datetime(decision.timestamp),
        model_version=model_version(decision.epoch, decision.learned_through),
        activated_at=None if logged.activated_at is None else as_datetime(logged.activated_at),
        rewards=rewards,
        rewards_after=rewards[-1].number if len(logged.rewards) > MOST_REWARDS else None,
        wait=decision.reward_window / SECOND,
        features=np.frombuffer(request).reshape(len(decision.actions), -1).tolist()
        if is_dense
        else msgspec.Raw(request),
    )


async def explanation(site: Site, request: Request) -> Response:
    """Return the contribution of each feature to the scores of an event's actions."""
    async with site.explanations:
        return await site.read(lambda: Response(encode_json(_explanation(site, request)), media_type=JSON_TYPE))


def _explanation(site: Site, request: Request) -> schemas.Explanation:
    """Explain all decisions of an event.

    The model that made a decision explains it, or else the present model.
    """
    limit, store = page_limit(request.query_params, FEATURES, MAX_FEATURES), site.service.store
    loop, event_id = site.service.loop(loop_name(request)), request.path_params["event"]
    decisions = [logged.decision for logged in store.decisions_of(loop.name, event_id, NO_REWARDS)]
    if not decisions:
        raise unknown_event(event_id)
    published, slots = loop.published, []
    models = {(published.epoch, published.learned_through): published}
    for decision in decisions:
        version = (decision.epoch, decision.learned_through)
        if version not in models:
            bandit = model_that_decided(store, decision, MAX_RELEARNED)
            models[version] = published if bandit is None else PublishedModel(*version, bandit, encoder_of(bandit))
        slots.append(_slot(decision, models[version], limit))
    decided_by = [model_version(decision.epoch, decision.learned_through) for decision in decisions]
    return schemas.Explanation(
        event_id=event_id,
        model_version=decided_by[0],
        exact=[slot.explained_by for slot in slots] == decided_by,
        slots=slots,
    )


def _slot(decision: Decision, model: PublishedModel, limit: int) -> schemas.ExplainedSlot:
    actions = [
        schemas.ExplainedAction(
            **msgspec.structs.asdict(action),
            value=decision.values[index] if decision.values else None,
            cost=(decision.costs[index] if decision.costs else 0.0) if decision.values else None,
            shown=index == decision.shown,
            chosen=index == decision.chosen,
        )
        for index, action in enumerate(explain(decision, model.bandit, model.encoder, limit))
    ]
    return schemas.ExplainedSlot(
        slot=decision.slot, explained_by=model_version(model.epoch, model.learned_through), actions=actions
    )
