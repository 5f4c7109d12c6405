"""Handler of decisions among vectors of numbers, from JSON or from float32 bodies.

JSON is strict: unknown fields and numbers as text are refused.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from struct import Struct
from typing import TypeVar

import msgspec
import numpy as np

from glbandits.errors import InvalidInput
from glbandits.serving.domain.action_selection import DENSE
from glbandits.serving.domain.event_rules import new_event_id
from glbandits.serving.domain.events import Decision, DecisionRequest
from glbandits.serving.http.http_messages import HttpError, Request, Response
from glbandits.serving.http.site import Site
from glbandits.serving.http.v1.schemas import LONGEST_ID, Decided, DecideRequest
from glbandits.serving.server_settings import Settings

FLOATS_TYPE = b"application/octet-stream"
FLOAT32 = np.dtype("<f4")
FLAGS = {"true": True, "false": False}

Content = TypeVar("Content")

_encode = msgspec.json.Encoder().encode
_decide_request = msgspec.json.Decoder(DecideRequest).decode


def parse_json(decode: Callable[[bytes], Content], body: bytes) -> Content:
    """Decode a JSON body. Raises a 400 if it is invalid or of another type."""
    try:
        return decode(body)
    except msgspec.DecodeError as error:
        raise HttpError(400, "BadRequest", f"the body cannot be used: {error}") from None


async def decide(site: Site, request: Request) -> Response:
    """Choose an arm: from JSON, or from a body of float32 numbers."""
    if request.headers.get(b"content-type") == FLOATS_TYPE:
        question = _floats_request(request, site.settings)
    else:
        question = decision_request(parse_json(_decide_request, request.body), site.settings)
    return Response(200, _encode(decided(*await site.service.decide(request.loop_name, question))))


def model_version(epoch: int, number: int) -> str:
    """The version of a model: how often it was replaced, and the last decision that it had learned."""
    return f"{epoch}.{number}"


def decided(decision: Decision, degraded: bool) -> Decided:
    """A decision as a response."""
    return Decided(
        event_id=decision.event_id,
        arm=decision.shown,
        id=decision.actions[decision.shown],
        probability=decision.probability,
        probabilities=decision.probabilities,
        model_version=model_version(decision.epoch, decision.model),
        degraded=degraded,
    )


def decision_request(asked: DecideRequest, settings: Settings) -> DecisionRequest:
    """From the JSON form."""
    arms = asked.arms
    count, width = len(arms), len(arms[0])
    _check_size(count, width, settings)
    if list(map(len, arms)).count(width) < count:
        place = next(place for place, arm in enumerate(arms) if len(arm) != width)
        raise InvalidInput(
            f"arms must be of one length; arm 0 has {width} features, arm {place} has {len(arms[place])}"
        )
    numbers: list[float] = []
    for arm in arms:
        numbers += arm
    request = _packer(count * width)(*numbers)
    return DecisionRequest(
        event_id=asked.event_id or new_event_id(),
        request=request,
        encoding=DENSE,
        actions=_places(count) if asked.ids is None else _checked_ids(asked.ids, count),
        excluded=_checked_excluded(asked.excluded, count),
        deferred=asked.deferred,
    )


def _floats_request(request: Request, settings: Settings) -> DecisionRequest:
    """From a body of float32 numbers, little-endian, arm after arm; the rest is in the query."""
    parameters = _parameters(request)
    count = whole_number(parameters.get("arms", ""), "arms, the number of arms,")
    if count < 1 or not request.body or len(request.body) % (4 * count):
        raise InvalidInput(
            f"the body must be float32 numbers, as many for each of the {count} arms; got {len(request.body)} bytes"
        )
    width = len(request.body) // (4 * count)
    _check_size(count, width, settings)
    numbers = np.frombuffer(request.body, FLOAT32).astype(np.float64)
    excluded = parameters.get("excluded", "")
    return DecisionRequest(
        event_id=_checked_event_id(parameters.get("eventId")),
        request=numbers.tobytes(),
        encoding=DENSE,
        actions=_places(count),
        excluded=_checked_excluded([whole_number(part, "excluded") for part in excluded.split(",") if excluded], count),
        deferred=_flag(parameters.get("deferred", "false")),
    )


def _parameters(request: Request) -> dict[str, str]:
    name, _, value = request.query.partition("=")
    if name == "arms" and value.isdigit():  # the common case; parsing costs microseconds
        return {name: value}
    return request.parameters()


@lru_cache(maxsize=1024)
def _packer(count: int) -> Callable[..., bytes]:
    return Struct(f"{count}d").pack


@cache
def _places(count: int) -> tuple[str, ...]:
    """The ids of arms that have none: 0, 1, 2 ..."""
    return tuple(map(str, range(count)))


def _check_size(count: int, width: int, settings: Settings) -> None:
    if count > settings.max_dense_actions:
        raise InvalidInput(f"a decision may have {settings.max_dense_actions} arms; got {count}. Choose among fewer")
    if not 1 <= width <= settings.max_features:
        raise InvalidInput(f"an arm must have 1 to {settings.max_features} features; got {width}")


def _checked_ids(ids: list[str], count: int) -> tuple[str, ...]:
    if len(ids) != count:
        raise InvalidInput(f"ids must name every arm; got {len(ids)} for {count} arms")
    if len(set(ids)) < count:
        raise InvalidInput("ids must differ from each other; two arms have the same")
    return tuple(ids)


def _checked_excluded(excluded: list[int], count: int) -> tuple[int, ...]:
    if not excluded:
        return ()
    for place in excluded:
        if place >= count:
            raise InvalidInput(f"excluded must hold places of arms, 0 to {count - 1}; got {place}")
    return tuple(sorted(set(excluded)))


def _checked_event_id(event_id: str | None) -> str:
    if event_id is not None and not 1 <= len(event_id) <= LONGEST_ID:
        raise InvalidInput(f"eventId must have 1 to {LONGEST_ID} characters; got {len(event_id)}")
    return event_id or new_event_id()


def whole_number(text: str, name: str) -> int:
    """A number of the query."""
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidInput(f"{name} must be a whole number; got {text[:40]!r}")
    return int(text)


def _flag(text: str) -> bool:
    if text not in FLAGS:
        raise InvalidInput(f"deferred must be true or false; got {text[:40]!r}")
    return FLAGS[text]
