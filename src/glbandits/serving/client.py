"""A client for the service's own API: typed, over one connection that is kept."""

import http.client
import math
import time
from collections.abc import Mapping, Sequence
from threading import Lock
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
        arms: ArrayLike | list[dict[str, Any]],
        *,
        event_id: str | None = None,
        ids: Sequence[str] | None = None,
        excluded: Sequence[int] = (),
        deferred: bool = False,
    ) -> Decided:
        """Have one of these arms (K, width) chosen; `Decided.arm` is its row.

        Args:
            arms: the features of each, or a list of dicts with the fields of each. float32 arrays without ids take the
                shorter way of the wire.
            event_id: names the decision, for its reward. Without one, a new one is made.
            ids: names of the arms, for the log.
            excluded: rows that must not be chosen.
            deferred: whether it counts only once it is activated.
        """
        name = event_id or new_event_id()
        if isinstance(arms, np.ndarray) and arms.dtype == np.float32 and arms.ndim == 2 and ids is None:
            query = {"arms": str(len(arms)), "eventId": name, "deferred": str(deferred).lower()}
            if excluded:
                query["excluded"] = ",".join(map(str, excluded))
            return self._ask(f"/decide?{urlencode(query)}", Decided, np.ascontiguousarray(arms, dtype="<f4").tobytes())
        return self._ask(
            "/decide", Decided, question(arms, event_id=name, ids=ids, excluded=excluded, deferred=deferred)
        )

    def reward(self, event_id: str, value: float, *, key: str | None = None) -> Rewarded:
        """Tell what came of a decision.

        Args:
            event_id: of the decision.
            value: of the reward.
            key: a name for this reward: sent twice under the same name it counts once. Without one, a new one is made.
        """
        return self._ask("/reward", Rewarded, _reward(event_id, value, key))

    def activate(self, event_id: str) -> Rewarded:
        """Let a deferred decision count."""
        return self._ask("/activate", Rewarded, ActivateRequest(event_id=event_id))

    def batch(self, decide: Sequence[DecideRequest] = (), reward: Sequence[tuple[str, float]] = ()) -> BatchReply:
        """Many of both in one request, each with an outcome of its own.

        Args:
            decide: questions, as `question` makes them.
            reward: event ids and values. They may be of decisions in the same batch.
        """
        rewards = [_reward(event_id, value) for event_id, value in reward]
        return self._ask("/batch", BatchReply, BatchRequest(decide=list(decide), reward=rewards))

    def explanation(self, event_id: str, *, limit: int = 20) -> Explanation:
        """Return what each feature contributed to the scores of an event's actions. Needs a key with the scope read.

        Args:
            event_id: of the decision.
            limit: the number of features listed for each action.
        """
        return self._ask(f"/events/{quote(event_id, safe='')}/explanation?limit={limit}", Explanation)

    def status(self) -> Status:
        """How the loop is doing. Needs a key that may read."""
        return self._ask("/status", Status)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, path: str, reply: type[Reply], sent: msgspec.Struct | bytes | None = None) -> Reply:
        body = msgspec.json.encode(sent) if isinstance(sent, msgspec.Struct) else sent
        headers = self._headers | ({} if body is None else {"Content-Type": FLOATS if body is sent else JSON})
        for again in range(self._tries - 1, -1, -1):
            try:
                response, content = self._send(path, body, headers)
            except (http.client.HTTPException, OSError) as error:
                if not again:
                    raise ServiceError(0, "Unreachable", f"the service gave no reply: {error!r}") from error
                time.sleep(0.1)
                continue
            if response.status == 200:
                return msgspec.json.decode(content, type=reply)
            if response.status not in BUSY or not again:
                break
            pause = response.getheader("Retry-After", "")
            time.sleep(min(float(pause), LONGEST_PAUSE) if pause.isdigit() else 1.0)
        raise _error(response.status, content)

    def _send(self, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[http.client.HTTPResponse, bytes]:
        with self._lock:
            try:
                self._connection.request("GET" if body is None else "POST", self._prefix + path, body, headers)
                response = self._connection.getresponse()
                return response, response.read()
            except (http.client.HTTPException, OSError):
                self._connection.close()  # the next request opens another one
                raise


def question(
    arms: ArrayLike | list[dict[str, Any]],
    *,
    event_id: str | None = None,
    ids: Sequence[str] | None = None,
    excluded: Sequence[int] = (),
    deferred: bool = False,
) -> DecideRequest:
    """A question for a batch; the arguments are those of `Client.decide`."""
    more: dict[str, Any] = {"event_id": event_id or new_event_id(), "deferred": deferred}
    more |= {"ids": None if ids is None else list(ids), "excluded": [int(index) for index in excluded]}
    if isinstance(arms, list) and arms and isinstance(arms[0], Mapping):
        return DecideRequest(rows=[dict(row) for row in arms], **more)
    rows = np.asarray(arms, dtype=np.float64)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InvalidInput(f"arms must be finite numbers, (K, width), a row for each arm; got shape {rows.shape}")
    return DecideRequest(arms=rows.tolist(), **more)


def _reward(event_id: str, value: Any, key: str | None = None) -> EventRewardRequest:
    if not math.isfinite(value):
        raise InvalidInput(f"a reward must be a finite number; got {value!r}")
    return EventRewardRequest(event_id=event_id, value=float(value), key=key or new_event_id())


def _error(status: int, content: bytes) -> ServiceError:
    try:
        problem = msgspec.json.decode(content, type=_Problem)
    except msgspec.DecodeError:
        problem = _Problem(detail=content[:200].decode("utf-8", "replace"))
    return ServiceError(status, problem.code, f"the service refused with {status}: {problem.detail}")
