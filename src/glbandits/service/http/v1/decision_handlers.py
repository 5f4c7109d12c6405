"""Handlers of decisions and rankings among vectors of numbers or rows of named fields.

JSON is checked strictly: unknown fields and numbers as text are refused.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from struct import Struct

from msgspec.structs import replace
from starlette.requests import Request

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.action_selection import allowed_indices
from glbandits.service.domain.event_rules import new_event_id
from glbandits.service.domain.events import DecisionRequest
from glbandits.service.domain.request_features import (
    DENSE,
    JSON,
    RequestEncoder,
    check_arm_fields,
    check_arm_names,
    encode_json_request,
    row_names,
)
from glbandits.service.http.endpoint import loop_name
from glbandits.service.http.http_errors import HttpError
from glbandits.service.http.site import Site
from glbandits.service.http.v1.schemas import LONGEST_ID, Decided, DecideRequest, Ranked, RankingRequest
from glbandits.service.runtime.decision_writer import DecisionResult
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.server_settings import Settings


async def decide(site: Site, request: Request, sent: DecideRequest) -> Decided:
    """Choose an arm."""
    loop = site.service.loop(loop_name(request))
    return decided(await site.service.decide(loop.name, decision_request(site, loop, sent)))


async def rank(site: Site, request: Request, sent: RankingRequest) -> Ranked:
    """Rank the best arms: each position is a decision among the arms that have no position yet."""
    loop = site.service.loop(loop_name(request))
    first = decision_request(site, loop, sent)
    left = len(allowed_indices(len(first.actions), first.excluded))
    if sent.k > left:
        raise InvalidInput(f"k must be at most {left}, the number of arms that are not excluded; got {sent.k}")
    positions = [replace(first, slot=str(position)) for position in range(sent.k)]
    results = await site.service.decide_slots(loop.name, positions)
    decisions = [result.decision for result in results]
    return Ranked(
        event_id=first.event_id,
        arms=tuple(decision.shown for decision in decisions),
        ids=tuple(decision.actions[decision.shown] for decision in decisions),
        probability=math.prod(decision.probability for decision in decisions),
        probabilities=tuple(decision.probability for decision in decisions),
        model_version=model_version(decisions[0].epoch, decisions[0].learned_through),
        degraded=any(result.degraded for result in results),
    )


def model_version(epoch: int, sequence: int) -> str:
    """Return the version of a model: its epoch and the last sequence number it has learned."""
    return f"{epoch}.{sequence}"


def unknown_event(event_id: str, advice: str = "") -> HttpError:
    """Return the error for an event that is not in the log."""
    return HttpError(404, "UnknownEvent", f"the loop has no decision of the event {event_id!r}{advice}")


def decided(result: DecisionResult) -> Decided:
    """Return the response for a decision."""
    decision = result.decision
    return Decided(
        event_id=decision.event_id,
        arm=decision.shown,
        id=decision.actions[decision.shown],
        probability=decision.probability,
        probabilities=decision.probabilities,
        model_version=model_version(decision.epoch, decision.learned_through),
        degraded=result.degraded,
    )


def decision_request(site: Site, loop: Loop, sent: DecideRequest) -> DecisionRequest:
    """Return the decision request of a JSON body."""
    arms, settings = sent.arms, site.settings
    if arms is None or sent.rows is not None or sent.context is not None:
        return _rows_request(sent, settings, loop.published.encoder)
    count, width = len(arms), len(arms[0])
    _check_size(count, width, settings)
    if list(map(len, arms)).count(width) < count:
        index = next(index for index, arm in enumerate(arms) if len(arm) != width)
        raise InvalidInput(
            f"all arms must have the same length; arm 0 has {width} features, arm {index} has {len(arms[index])}"
        )
    numbers: list[float] = []
    for arm in arms:
        numbers += arm
    return _request(_packer(count * width)(*numbers), DENSE, _ids(sent, count), sent)


def _rows_request(sent: DecideRequest, settings: Settings, encoder: RequestEncoder) -> DecisionRequest:
    """Return the decision request of rows of named fields."""
    rows = sent.rows
    if rows is None or sent.arms is not None:
        raise InvalidInput("send either arms, a list of numbers for each arm, or rows, an object for each arm")
    if len(rows) > settings.max_actions:
        raise InvalidInput(f"a decision may have {settings.max_actions} rows; got {len(rows)}. Send fewer")
    actions = [[row] for row in rows]
    if sent.ids is None:
        check_arm_fields(actions, encoder)
        ids = _names_or_indices(row_names(rows, encoder))
    else:
        ids = _ids(sent, len(rows))
        check_arm_names(actions, ids, encoder)
    request = encode_json_request([] if sent.context is None else [sent.context], actions)
    return _request(request, JSON, ids, sent)


def _names_or_indices(names: list[str | None]) -> tuple[str, ...]:
    """Return the names of arms as ids; their indices if a name is missing, too long or not unique."""
    ids = tuple(name for name in names if name is not None and len(name) <= LONGEST_ID)
    return ids if len(set(ids)) == len(names) else _indices(len(names))


def _ids(sent: DecideRequest, count: int) -> tuple[str, ...]:
    ids = _indices(count) if sent.ids is None else tuple(sent.ids)
    if len(ids) != count:
        raise InvalidInput(f"ids must have an id for each arm; got {len(ids)} for {count} arms")
    if sent.ids is not None and len(set(ids)) < count:
        raise InvalidInput("ids must be unique; two arms have the same id")
    return ids


def _request(features: bytes, encoding: str, ids: tuple[str, ...], sent: DecideRequest) -> DecisionRequest:
    excluded = sent.excluded
    if excluded:
        for index in excluded:
            if index >= len(ids):
                raise InvalidInput(f"excluded must be indices of arms, 0 to {len(ids) - 1}; got {index}")
        excluded = sorted(set(excluded))
    if sent.sticky and sent.unit is None:
        raise InvalidInput("sticky needs the user or session for which the decision is made; send unit too")
    costs = [0.0] * len(sent.values) if sent.values is not None and sent.costs is None else sent.costs
    return DecisionRequest(
        event_id=sent.event_id or new_event_id(),
        request=features,
        encoding=encoding,
        actions=ids,
        values=None if sent.values is None else tuple(sent.values),
        costs=None if costs is None else tuple(costs),
        excluded=tuple(excluded),
        deferred=sent.deferred,
        unit=sent.unit or "",
        sticky=sent.sticky,
    )


@lru_cache(maxsize=1024)
def _packer(count: int) -> Callable[..., bytes]:
    return Struct(f"{count}d").pack


@cache
def _indices(count: int) -> tuple[str, ...]:
    """Return the ids of arms without ids: 0, 1, 2 ..."""
    return tuple(map(str, range(count)))


def _check_size(count: int, width: int, settings: Settings) -> None:
    if count > settings.max_dense_actions:
        raise InvalidInput(f"a decision may have {settings.max_dense_actions} arms; got {count}. Send fewer")
    if not 1 <= width <= settings.max_features:
        raise InvalidInput(f"an arm must have 1 to {settings.max_features} features; got {width}")


def parse_integer(text: str, name: str) -> int:
    """Parse a whole number of the query. Raises InvalidInput."""
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidInput(f"{name} must be a whole number; got {text[:40]!r}")
    return int(text)


def page_limit(parameters: Mapping[str, str], default: int, most: int) -> int:
    """Return the query parameter `limit`. Raises InvalidInput."""
    limit = parse_integer(parameters.get("limit", str(default)), "limit")
    if not 1 <= limit <= most:
        raise InvalidInput(f"limit must be 1 to {most}; got {limit}")
    return limit
