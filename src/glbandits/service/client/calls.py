"""The part of the clients without I/O: requests, responses, errors, and when to send a request again."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypedDict, TypeVar
from urllib.parse import quote, urlsplit

import httpx2
import msgspec
from msgspec.structs import asdict, replace

from glbandits.common.errors import MAX_ABS, GlbanditsError, InvalidInput, check_float, check_int, value_text
from glbandits.service.domain.event_rules import new_event_id
from glbandits.service.domain.groups.guardrail_report import Guardrails
from glbandits.service.http.v1.schemas import (
    ActivateRequest,
    BatchReply,
    BatchRequest,
    Decided,
    DecideRequest,
    EventRewardRequest,
    Explanation,
    MetricsReply,
    MetricsRequest,
    Ranked,
    RankingRequest,
    Rewarded,
    Status,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Arms: TypeAlias = "ArrayLike | Sequence[Mapping[str, Any]]"
BatchReward: TypeAlias = tuple[str, float] | EventRewardRequest
"""An event id and its reward, or a request from `reward_request`."""
Content = TypeVar("Content")

BUSY = (429, 503)
"""Statuses after which a retry of the request may succeed."""
PRINTABLE = re.compile("[!-~]+")
"""What a key consists of: other characters cannot be sent in a header."""
LOST_PAUSE, BUSY_PAUSE, LONGEST_PAUSE = 0.1, 1.0, 10.0
"""Seconds between two attempts: without a response; without a Retry-After; at most."""


class DecideOptions(TypedDict, total=False):
    """The optional arguments of a decision. `Client.decide` documents them."""

    context: Mapping[str, Any] | None
    event_id: str | None
    ids: Sequence[str] | None
    values: "ArrayLike | None"
    costs: "ArrayLike | None"
    excluded: Sequence[int]
    deferred: bool
    unit: str | None
    sticky: bool


class ServiceError(GlbanditsError):
    """An error response, or no response.

    `status` is 0 without a response; `code` is the stable name of the error.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class _Problem(msgspec.Struct, frozen=True):
    code: str = "Unknown"
    detail: str = ""


class Call(Generic[Content]):
    """A request, and the type of its response. It may be sent several times: the server counts it once.

    Args:
        path: the path below /v1 of the loop.
        response_type: the type of the response.
        content: sent as JSON; None for a request without a body.
        method: of the request; by default GET without a body, else POST.
    """

    def __init__(
        self, path: str, response_type: type[Content], content: msgspec.Struct | None = None, method: str = ""
    ) -> None:
        self.path, self.response_type = path, response_type
        self.method = method or ("GET" if content is None else "POST")
        self.body = None if content is None else _json(content)
        self.headers = {} if content is None else {"Content-Type": "application/json"}


class Pause(NamedTuple):
    """The outcome of an attempt that should be repeated after some seconds."""

    seconds: float


class Destination:
    """Where the calls of a client go, and when they are sent again. `Client` documents the arguments."""

    def __init__(self, address: str, key: str, loop: str, tries: int) -> None:
        url = urlsplit(address)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise InvalidInput(f"address must be like http://127.0.0.1:8711; got {address!r}")
        if not isinstance(key, str) or not PRINTABLE.fullmatch(key):  # the message must not contain the key
            raise InvalidInput(
                "key must be text of printable ASCII characters without spaces or line breaks, as "
                "`glb store keys create` prints it. If it was read from a file, pass key.strip()"
            )
        self._address = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
        self._prefix = f"{self._address}{url.path.rstrip('/')}/loops/{quote(loop, safe='')}/v1"
        self._headers = {"Authorization": f"Bearer {key}"}
        self._tries = check_int("tries", tries, at_least=1)

    def request(self, call: Call[Any]) -> httpx2.Request:
        """Return the request of a call. It can be sent again."""
        return httpx2.Request(
            call.method, self._prefix + call.path, content=call.body, headers=self._headers | call.headers
        )

    def result(
        self, call: Call[Content], outcome: httpx2.Response | httpx2.TransportError, attempt: int
    ) -> Content | Pause:
        """Return the content of the response to a call, or a pause until the next attempt.

        Attempts are counted from 1. Raises ServiceError for an error response, or if the last attempt got no response.
        """
        is_last = attempt == self._tries
        if isinstance(outcome, httpx2.TransportError):
            if is_last:
                message = f"the service at {self._address} did not respond: {outcome!r}"
                raise ServiceError(0, "Unreachable", message) from outcome
            return Pause(LOST_PAUSE)
        if outcome.status_code in BUSY and not is_last:
            seconds = outcome.headers.get("Retry-After", "")
            return Pause(min(float(seconds), LONGEST_PAUSE) if seconds.isdigit() else BUSY_PAUSE)
        try:
            if outcome.status_code == 200:
                return msgspec.json.decode(outcome.content, type=call.response_type)
            problem = msgspec.json.decode(outcome.content, type=_Problem)
        except msgspec.DecodeError:  # the response of a proxy
            problem = _Problem(detail=outcome.text[:200])
        message = f"the service responded with {outcome.status_code}: {problem.detail}"
        raise ServiceError(outcome.status_code, problem.code, message)


def decide(arms: Arms, options: DecideOptions) -> Call[Decided]:
    """Return the call of `Client.decide`."""
    return Call("/decide", Decided, decide_request(arms, **options))


def rank(arms: Arms, k: int, options: DecideOptions) -> Call[Ranked]:
    """Return the call of `Client.rank`."""
    request = asdict(decide_request(arms, **options))
    return Call("/rank", Ranked, RankingRequest(k=check_int("k", k, at_least=1), **request))


def reward(event_id: str, value: float, key: str | None, *, position: int | None, cascade: bool) -> Call[Rewarded]:
    """Return the call of `Client.reward`."""
    return Call("/reward", Rewarded, reward_request(event_id, value, key=key, position=position, cascade=cascade))


def metrics(event_id: str, numbers: Mapping[str, float], key: str, *, position: int | None) -> Call[MetricsReply]:
    """Return the call of `Client.metrics`."""
    return Call("/metrics", MetricsReply, metrics_request(event_id, numbers, key=key, position=position))


def activate(event_id: str) -> Call[Rewarded]:
    """Return the call of `Client.activate`."""
    return Call("/activate", Rewarded, ActivateRequest(event_id=event_id))


def batch(
    decisions: Sequence[DecideRequest], rewards: Sequence[BatchReward], metrics: Sequence[MetricsRequest] = ()
) -> Call[BatchReply]:
    """Return the call of `Client.batch`."""
    named = [each if each.event_id else replace(each, event_id=new_event_id()) for each in decisions]
    sent = [each if isinstance(each, EventRewardRequest) else reward_request(*each) for each in rewards]
    keyed = [each if each.key else replace(each, key=new_event_id()) for each in sent]
    return Call("/batch", BatchReply, BatchRequest(decide=named, reward=keyed, metrics=list(metrics)))


def explanation(event_id: str, limit: int) -> Call[Explanation]:
    """Return the call of `Client.explanation`."""
    return Call(f"/events/{quote(event_id, safe='')}/explanation?limit={limit}", Explanation)


def status() -> Call[Status]:
    """Return the call of `Client.status`."""
    return Call("/status", Status)


def guardrails() -> Call[Guardrails]:
    """Return the call of `Client.guardrails`."""
    return Call("/guardrails", Guardrails)


def resume() -> Call[Guardrails]:
    """Return the call of `Client.resume`."""
    return Call("/guardrails/resume", Guardrails, method="POST")


def decide_request(
    arms: Arms,
    *,
    context: Mapping[str, Any] | None = None,
    event_id: str | None = None,
    ids: Sequence[str] | None = None,
    values: "ArrayLike | None" = None,
    costs: "ArrayLike | None" = None,
    excluded: Sequence[int] = (),
    deferred: bool = False,
    unit: str | None = None,
    sticky: bool = False,
) -> DecideRequest:
    """Return a request for `Client.batch`, with the arguments of `Client.decide`."""
    fields: dict[str, Any] = {"event_id": event_id or new_event_id(), "deferred": deferred}
    fields |= {"unit": None if unit is None else _text("unit", unit), "sticky": sticky}
    fields |= {"ids": None if ids is None else list(ids), "excluded": [int(index) for index in excluded]}
    fields |= {
        name: None if payoffs is None else _numbers(payoffs, f"{name} must be finite numbers, one for each arm")
        for name, payoffs in (("values", values), ("costs", costs))
    }
    if isinstance(arms, Sequence) and arms and isinstance(arms[0], Mapping):
        rows: Any = arms
        return DecideRequest(
            rows=[dict(row) for row in rows], context=None if context is None else dict(context), **fields
        )
    if context is not None:
        raise InvalidInput(f"context needs arms with named fields, a list of dicts; got arms {value_text(arms)}")
    arms = arms.__array__().tolist() if hasattr(arms, "__array__") else arms
    wanted = "arms must be finite numbers of shape (K, width), a row for each arm"
    given: Any = arms
    try:
        return DecideRequest(arms=[_numbers(arm, wanted) for arm in given], **fields)
    except (TypeError, InvalidInput):
        raise InvalidInput(f"{wanted}; got {value_text(arms)}") from None


def _json(content: msgspec.Struct) -> bytes:
    """Return a request as JSON. Raises InvalidInput if a value has no form in JSON."""
    try:
        return msgspec.json.encode(content, enc_hook=_plain_value)
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"the request has no form in JSON: {error}. Send texts, numbers, booleans or None") from None


def _plain_value(value: Any) -> Any:
    """Return a scalar of NumPy or pandas as a plain value. A missing value becomes None, a date becomes text."""
    name = type(value).__name__
    if name in ("NAType", "NaTType"):
        return None
    if isinstance(value, datetime):  # a Timestamp of pandas
        return value.isoformat()
    if name == "datetime64":
        return None if value != value else str(value)
    if hasattr(value, "dtype") and hasattr(value, "tolist") and name != "timedelta64":
        return value.tolist()
    if isinstance(value, str | float):
        return str(value) if isinstance(value, str) else float(value)
    raise InvalidInput(
        f"rows and context must hold texts, numbers, booleans, dates or None; got {value_text(value)} of type {name}"
    )


def _numbers(given: Any, wanted: str) -> list[float]:
    """Return numbers as a list. Raises InvalidInput with what is wanted, unless all are finite."""
    try:
        numbers = [float(value) for value in given]
        is_finite = all(map(math.isfinite, numbers))
    except (TypeError, ValueError, OverflowError):
        is_finite = False
    if not is_finite:
        raise InvalidInput(f"{wanted}; got {value_text(given)}")
    return numbers


def reward_request(
    event_id: str, value: Any, *, key: str | None = None, position: int | None = None, cascade: bool = False
) -> EventRewardRequest:
    """Return a reward for `Client.batch`, with the arguments of `Client.reward`."""
    return EventRewardRequest(
        event_id=event_id,
        value=_number(value),
        key=key or new_event_id(),
        position=_position(position),
        cascade=cascade,
    )


def metrics_request(
    event_id: str, metrics: Mapping[str, Any], *, key: str = "", position: int | None = None
) -> MetricsRequest:
    """Return numbers of metrics for `Client.batch`, with the arguments of `Client.metrics`."""
    numbers = {
        _text("the name of a metric", name): check_float(f"the number of metric {name!r}", value, at_least=-MAX_ABS)
        for name, value in metrics.items()
    }
    return MetricsRequest(event_id=event_id, metrics=numbers, key=key, position=_position(position))


def _text(what: str, value: Any) -> str:
    try:
        is_text = isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:  # half of a surrogate pair
        is_text = False
    if not is_text:
        raise InvalidInput(f"{what} must be Unicode text; got {value_text(value)}")
    return str(value)


def _number(value: Any) -> float:
    try:
        is_finite = math.isfinite(value)
    except (TypeError, ValueError, OverflowError):  # text, several numbers, or an int that is no float
        is_finite = False
    if not is_finite:
        raise InvalidInput(f"a reward must be a finite number; got {value_text(value)}")
    return float(value)


def _position(position: int | None) -> int | None:
    return None if position is None else check_int("position", position, at_least=0)
