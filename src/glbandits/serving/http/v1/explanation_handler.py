"""Handler of explanations. They are made in a thread, one at a time, so that decisions do not wait for them."""

import asyncio

import msgspec

from glbandits.errors import InvalidInput
from glbandits.features import Hashing
from glbandits.serving.domain.events import Decision
from glbandits.serving.domain.explanation import explain
from glbandits.serving.http.http_messages import Request, Response
from glbandits.serving.http.site import Site
from glbandits.serving.http.v1.admin_handlers import unknown_event
from glbandits.serving.http.v1.decision_handlers import model_version, whole_number
from glbandits.serving.http.v1.schemas import ExplainedAction, ExplainedSlot, Explanation
from glbandits.serving.runtime.learning_loop import Published
from glbandits.serving.runtime.relearning import model_that_decided
from glbandits.serving.storage.event_store import EventStore

LIMIT, LARGEST_LIMIT = 20, 200
"""Features listed for each action by default, and at most."""
MOST_RELEARNED = 10_000
"""Decisions that are learned again to get the model that decided. They take 1.2 s to 1.7 s."""


async def explanation(site: Site, request: Request) -> Response:
    """Why the actions of an event got their scores: what each feature contributed."""
    limit = whole_number(request.parameters().get("limit", str(LIMIT)), "limit")
    if not 1 <= limit <= LARGEST_LIMIT:
        raise InvalidInput(f"limit must be 1 to {LARGEST_LIMIT}; got {limit}")
    loop, store, event_id = site.service.loop(request.loop_name), site.service.store, request.values["event"]

    def read() -> Response:
        decisions = [logged.decision for logged in store.decisions_of(loop.name, event_id)]
        if not decisions:
            raise unknown_event(event_id)
        return Response(200, msgspec.json.encode(explanation_of(decisions, store, loop.published, limit)))

    async with site.explanations:
        return await asyncio.to_thread(read)


def explanation_of(decisions: list[Decision], store: EventStore, published: Published, limit: int) -> Explanation:
    """Explain all decisions of an event, each by the model that made it, or else by the published one."""
    models, slots = {(published.epoch, published.sequence): published}, []
    for decision in decisions:
        version = (decision.epoch, decision.model)
        if version not in models:
            bandit = model_that_decided(store, decision, MOST_RELEARNED)
            models[version] = published if bandit is None else Published(*version, bandit, Hashing(width=bandit.dim))
        slots.append(_slot(decision, models[version], limit))
    decided_by = [model_version(decision.epoch, decision.model) for decision in decisions]
    return Explanation(
        event_id=decisions[0].event_id,
        model_version=decided_by[0],
        exact=[slot.explained_by for slot in slots] == decided_by,
        slots=slots,
    )


def _slot(decision: Decision, model: Published, limit: int) -> ExplainedSlot:
    actions = [
        ExplainedAction(
            **msgspec.structs.asdict(action), shown=index == decision.shown, chosen=index == decision.chosen
        )
        for index, action in enumerate(explain(decision, model.bandit, model.hashing, limit))
    ]
    return ExplainedSlot(slot=decision.slot, explained_by=model_version(model.epoch, model.sequence), actions=actions)
