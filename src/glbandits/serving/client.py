"""A client for the service's own API: typed, over one connection that is kept."""

import http.client
import math
import time
from collections.abc import Sequence
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from glbandits.errors import GlbanditsError, InvalidInput
from glbandits.serving.domain.event_rules import new_event_id
from glbandits.serving.http.v1.schemas import (
    ActivateRequest,
    BatchReply,
    BatchRequest,
    Decided,
    DecideRequest,
    EventRewardRequest,
    Explanation,
    Rewarded,
    Status,
)

BUSY = (429, 503)
"""Statuses after which the same request may succeed."""
JSON, FLOATS = "application/json", "application/octet-stream"
LONGEST_PAUSE = 10.0
"""Seconds between two tries, whatever the server says."""

Reply = TypeVar("Reply")


class ServiceError(GlbanditsError):
    """The server refused, or could not be reached. `status` is 0 if there was no reply; `code` names what was wrong."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class _Problem(msgspec.Struct, frozen=True):
    code: str = "Unknown"
    detail: str = ""


class Client:
    """Asks a service for decisions and tells it rewards.

    It may be used from several threads, one request at a time; for requests side by side make a client for each. What
    a server that is busy or gone did not answer is sent again: every decision has its event id before it is sent, and
    every reward a key, so that what arrives twice counts once.

    Args:
        address: such as http://127.0.0.1:8711.
        key: a key of the service, for rank and reward.
        loop: the loop that decides.
        timeout: seconds for a reply.
        tries: how often a request is sent, at most.
    """

    def __init__(self, address: str, key: str, loop: str = "default", *, timeout: float = 10.0, tries: int = 4) -> None:
        url = urlsplit(address)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise InvalidInput(f"address must be like http://127.0.0.1:8711; got {address!r}")
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(url.hostname, url.port, timeout=timeout)
        self._prefix = f"{url.path.rstrip('/')}/loops/{quote(loop, safe='')}/v1"
        self._headers = {"Authorization": f"Bearer {key}"}
        self._tries, self._lock = tries, Lock()

    def decide(
        self,
        arms: ArrayLike,
        *,
        event_id: str | None = None,
        ids: Sequence[str] | None = None,
        excluded: Sequence[int] = (),
        deferred: bool = False,
    ) -> Decided:
        """Have one of these arms (K, width) chosen; `Decided.arm` is its row.

        Args:
            arms: the features of each. float32 arrays without ids take the shorter way of the wire.
            event_id: names the decision, for its reward. Without one, a new one is made.
            ids: names of the arms, for the log.
            excluded: rows that must not be chosen.
            deferred: whether it counts only once it is activated.
        """
        name = event_id or new_event_id()
        if isinstance(arms, np.ndarray) and arms.dtype == np.float32 and arms.ndim == 2 and ids is None:
            told = {"arms": len(arms), "eventId": name, "deferred": str(deferred).lower()}
            places = {"excluded": ",".join(map(str, excluded))} if excluded else {}
            body = np.ascontiguousarray(arms, dtype="<f4").tobytes()
            return self._ask("POST", f"/decide?{urlencode(told | places)}", Decided, body, FLOATS)
        asked = question(arms, event_id=name, ids=ids, excluded=excluded, deferred=deferred)
        return self._ask("POST", "/decide", Decided, msgspec.json.encode(asked))

    def reward(self, event_id: str, value: float, *, key: str | None = None) -> Rewarded:
        """Tell what came of a decision.

        Args:
            event_id: of the decision.
            value: of the reward.
            key: a name for this reward: sent twice under the same name it counts once. Without one, a new one is made.
        """
        sent = EventRewardRequest(event_id=event_id, value=_finite(value), key=key or new_event_id())
        return self._ask("POST", "/reward", Rewarded, msgspec.json.encode(sent))

    def activate(self, event_id: str) -> Rewarded:
        """Let a deferred decision count."""
        return self._ask("POST", "/activate", Rewarded, msgspec.json.encode(ActivateRequest(event_id=event_id)))

    def batch(self, decide: Sequence[DecideRequest] = (), reward: Sequence[tuple[str, float]] = ()) -> BatchReply:
        """Many of both in one request, each with an outcome of its own.

        Args:
            decide: questions, as `question` makes them.
            reward: event ids and values. They may be of decisions in the same batch.
        """
        rewards = [
            EventRewardRequest(event_id=event_id, value=_finite(value), key=new_event_id())
            for event_id, value in reward
        ]
        sent = BatchRequest(decide=list(decide), reward=rewards)
        return self._ask("POST", "/batch", BatchReply, msgspec.json.encode(sent))

    def explanation(self, event_id: str, *, limit: int = 20) -> Explanation:
        """Return what each feature contributed to the scores of an event's actions. Needs a key with the scope read.

        Args:
            event_id: of the decision.
            limit: the number of features listed for each action.
        """
        return self._ask("GET", f"/events/{quote(event_id, safe='')}/explanation?limit={limit}", Explanation)

    def status(self) -> Status:
        """How the loop is doing. Needs a key that may read."""
        return self._ask("GET", "/status", Status)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, method: str, path: str, reply: type[Reply], body: bytes | None = None, kind: str = JSON) -> Reply:
        headers = self._headers | ({"Content-Type": kind} if body is not None else {})
        for again in range(self._tries - 1, -1, -1):
            try:
                status, told, content = self._send(method, self._prefix + path, body, headers)
            except (http.client.HTTPException, OSError) as error:
                if not again:
                    raise ServiceError(0, "Unreachable", f"the service gave no reply: {error!r}") from error
                time.sleep(0.1)
                continue
            if status == 200:
                return msgspec.json.decode(content, type=reply)
            if status not in BUSY or not again:
                break
            time.sleep(_pause(told))
        raise _error(status, content)

    def _send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str | None, bytes]:
        with self._lock:
            try:
                self._connection.request(method, path, body, headers)
                reply = self._connection.getresponse()
                return reply.status, reply.getheader("Retry-After"), reply.read()
            except (http.client.HTTPException, OSError):
                self._connection.close()  # the next request opens another one
                raise


def question(
    arms: ArrayLike,
    *,
    event_id: str | None = None,
    ids: Sequence[str] | None = None,
    excluded: Sequence[int] = (),
    deferred: bool = False,
) -> DecideRequest:
    """A question for a batch; the arguments are those of `Client.decide`."""
    rows = np.asarray(arms, dtype=np.float64)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InvalidInput(f"arms must be finite numbers, (K, width), a row for each arm; got shape {rows.shape}")
    return DecideRequest(
        event_id=event_id or new_event_id(),
        arms=rows.tolist(),
        ids=None if ids is None else list(ids),
        excluded=[int(place) for place in excluded],
        deferred=deferred,
    )


def _finite(value: Any) -> float:
    if not math.isfinite(value):
        raise InvalidInput(f"a reward must be a finite number; got {value!r}")
    return float(value)


def _pause(told: str | None) -> float:
    """Seconds until the next try."""
    return min(float(told), LONGEST_PAUSE) if told is not None and told.isdigit() else 1.0


def _error(status: int, content: bytes) -> ServiceError:
    try:
        problem = msgspec.json.decode(content, type=_Problem)
    except msgspec.DecodeError:
        problem = _Problem(detail=content[:200].decode("utf-8", "replace"))
    return ServiceError(status, problem.code, f"the service refused with {status}: {problem.detail}")
