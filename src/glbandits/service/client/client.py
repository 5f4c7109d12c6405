"""A typed client for the API of the service, over one persistent connection."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote, urlencode

import numpy as np
from numpy.typing import ArrayLike

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, value_text
from glbandits.service.client.connection import Connection
from glbandits.service.domain.event_rules import new_event_id
from glbandits.service.http.v1.schemas import (
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


class Client:
    """Requests decisions from a service, and sends rewards.

    Several threads may share a client, but it sends one request at a time. For parallel requests, create several
    clients. If the server is busy or does not respond, the client sends the same request again. That is safe: the
    client gives every decision an event id and every reward a key, so that a repeated request counts once.

    Args:
        address: the URL of the server, such as http://127.0.0.1:8711.
        key: a key with the scopes rank and reward. Raises InvalidInput if it has spaces or line breaks.
        loop: the name of the loop.
        timeout: seconds to wait for a response.
        tries: how many times a request is sent, at most.
    """

    def __init__(self, address: str, key: str, loop: str = "default", *, timeout: float = 10.0, tries: int = 4) -> None:
        self._connection = Connection(address, key, loop, timeout=timeout, tries=tries)

    def decide(
        self,
        arms: ArrayLike | list[dict[str, Any]],
        *,
        context: Mapping[str, Any] | None = None,
        event_id: str | None = None,
        ids: Sequence[str] | None = None,
        excluded: Sequence[int] = (),
        deferred: bool = False,
    ) -> Decided:
        """Request the choice of one of several arms. `Decided.arm` is its index.

        Args:
            arms: a list with a dict of named fields for each arm, or the features of the arms as numbers, (K, width).
                A float32 array without ids is sent as binary numbers, which is faster.
            context: named fields that all arms share, if `arms` is a list of dicts.
            event_id: the id of the decision, for its reward. None: the client creates one.
            ids: ids of the arms, for the log. None: the names of the arms, if the feature map of the loop has a column
                for them and the dicts have different names in it; else their indices.
            excluded: indices of arms that must not be chosen.
            deferred: whether the decision is learned only if it is activated.
        """
        name = event_id or new_event_id()
        is_binary = isinstance(arms, np.ndarray) and arms.dtype == np.float32 and arms.ndim == 2
        if isinstance(arms, np.ndarray) and is_binary and ids is None and context is None:
            query = {"arms": str(len(arms)), "eventId": name, "deferred": str(deferred).lower()}
            if excluded:
                query["excluded"] = ",".join(map(str, excluded))
            return self._connection.send(
                f"/decide?{urlencode(query)}", Decided, np.ascontiguousarray(arms, dtype="<f4").tobytes()
            )
        request = decide_request(arms, context=context, event_id=name, ids=ids, excluded=excluded, deferred=deferred)
        return self._connection.send("/decide", Decided, request)

    def reward(self, event_id: str, value: float, *, key: str | None = None) -> Rewarded:
        """Send a reward of a decision.

        Args:
            event_id: the id of the decision.
            value: the reward.
            key: rewards of a decision with the same key count once. None: the client creates one.
        """
        return self._connection.send("/reward", Rewarded, _reward(event_id, value, key))

    def activate(self, event_id: str) -> Rewarded:
        """Activate a deferred decision, so that it is learned."""
        return self._connection.send("/activate", Rewarded, ActivateRequest(event_id=event_id))

    def batch(self, decide: Sequence[DecideRequest] = (), reward: Sequence[tuple[str, float]] = ()) -> BatchReply:
        """Request decisions and send rewards in one request, each with an outcome of its own.

        Args:
            decide: requests from the function `decide_request`.
            reward: event ids and values, also of decisions in the same batch.
        """
        rewards = [_reward(event_id, value) for event_id, value in reward]
        return self._connection.send("/batch", BatchReply, BatchRequest(decide=list(decide), reward=rewards))

    def explanation(self, event_id: str, *, limit: int = 20) -> Explanation:
        """Return the contributions of features to the scores of an event's actions.

        Needs a key with the scope read.

        Args:
            event_id: the id of the decision.
            limit: the number of features listed for each action.
        """
        return self._connection.send(f"/events/{quote(event_id, safe='')}/explanation?limit={limit}", Explanation)

    def status(self) -> Status:
        """Return the status of the loop. Needs a key with the scope read."""
        return self._connection.send("/status", Status)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def decide_request(
    arms: ArrayLike | list[dict[str, Any]],
    *,
    context: Mapping[str, Any] | None = None,
    event_id: str | None = None,
    ids: Sequence[str] | None = None,
    excluded: Sequence[int] = (),
    deferred: bool = False,
) -> DecideRequest:
    """Return a request for `Client.batch`, with the arguments of `Client.decide`."""
    fields: dict[str, Any] = {"event_id": event_id or new_event_id(), "deferred": deferred}
    fields |= {"ids": None if ids is None else list(ids), "excluded": [int(index) for index in excluded]}
    if isinstance(arms, list) and arms and isinstance(arms[0], Mapping):
        return DecideRequest(
            rows=[dict(row) for row in arms], context=None if context is None else dict(context), **fields
        )
    if context is not None:
        raise InvalidInput(f"context needs arms with named fields, a list of dicts; got arms {value_text(arms)}")
    return DecideRequest(arms=_finite_rows(arms).tolist(), **fields)


def _finite_rows(arms: Any) -> Floats:
    rows = np.asarray(arms, dtype=np.float64)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InvalidInput(
            f"arms must be finite numbers of shape (K, width), a row for each arm; got shape {rows.shape}"
        )
    return rows


def _reward(event_id: str, value: Any, key: str | None = None) -> EventRewardRequest:
    try:
        is_finite = math.isfinite(value)
    except (TypeError, ValueError, OverflowError):  # text, several numbers, or an int that is no float
        is_finite = False
    if not is_finite:
        raise InvalidInput(f"a reward must be a finite number; got {value_text(value)}")
    return EventRewardRequest(event_id=event_id, value=float(value), key=key or new_event_id())
