"""A client for the service's own API: typed, over one connection that is kept."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote, urlencode

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from glbandits.errors import InvalidInput
from glbandits.records import Floats
from glbandits.serving.client.connection import Connection
from glbandits.serving.domain.event_rules import new_event_id
from glbandits.serving.http.v1.catalogue_schemas import (
    Arm,
    ArmsChange,
    ArmsPage,
    CatalogueDecided,
    CatalogueDecideRequest,
    CatalogueStatus,
    CatalogueVersion,
)
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

ARMS_AT_ONCE = 2 * 1024 * 1024
"""Bytes of arms, about, that are sent together."""


class _Arms(msgspec.Struct, frozen=True):
    """An `ArmsRequest` whose arms are encoded already."""

    arms: list[msgspec.Raw]


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
        self._connection = Connection(address, key, loop, timeout=timeout, tries=tries)

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
            return self._connection.ask(
                f"/decide?{urlencode(query)}", Decided, np.ascontiguousarray(arms, dtype="<f4").tobytes()
            )
        return self._connection.ask(
            "/decide", Decided, question(arms, event_id=name, ids=ids, excluded=excluded, deferred=deferred)
        )

    def decide_from_catalogue(
        self,
        *,
        event_id: str | None = None,
        only: Sequence[str] | None = None,
        excluded: Iterable[str] = (),
        baseline: str | None = None,
        context: ArrayLike | dict[str, Any] | None = None,
        deferred: bool = False,
    ) -> CatalogueDecided:
        """Have an arm of the loop's catalogue chosen; `CatalogueDecided.id` is its id.

        Args:
            event_id: names the decision, for its reward. Without one, a new one is made.
            only: ids among which to choose; all without it.
            excluded: ids that must not be chosen.
            baseline: what you would show without a model; verdicts compare with it.
            context: numbers or named fields, if the loop combines them with the features of the arms.
            deferred: whether it counts only once it is activated.
        """
        asked = CatalogueDecideRequest(
            event_id=event_id or new_event_id(),
            only=None if only is None else list(only),
            excluded=tuple(excluded),
            baseline=baseline,
            context=context if context is None or isinstance(context, dict) else np.asarray(context, float).tolist(),
            deferred=deferred,
        )
        return self._connection.ask("/catalogue/decide", CatalogueDecided, asked)

    def put_arms(self, ids: Sequence[str], features: ArrayLike | Sequence[dict[str, Any]]) -> CatalogueVersion:
        """Add arms to the catalogue, in place of those with the same ids. Needs a key with the scope admin.

        Many arms are sent in several requests, each of which the server takes as a whole. If one is refused, those
        before it are in the catalogue; put all of them again.

        Args:
            ids: of the arms, at least one.
            features: (K, width), a row for each arm; or a list of dicts with the fields of each.
        """
        if isinstance(features, list) and features and isinstance(features[0], Mapping):
            rows: list[Any] = features
        else:
            rows = _finite_rows("features", features).tolist()
        if len(rows) != len(ids) or not rows:
            raise InvalidInput(f"features must have a row for each of the {len(ids)} ids; got {len(rows)}")
        arms = (msgspec.json.encode(Arm(id=arm, features=row)) for arm, row in zip(ids, rows, strict=True))
        for body in _bodies(arms):
            version = self._connection.ask("/catalogue/arms", CatalogueVersion, body, method="PUT")
        return version

    def change_arms(self, *, retire: Iterable[str] = (), restore: Iterable[str] = ()) -> CatalogueVersion:
        """Retire arms, and bring retired ones back: all of them or none. Needs a key with the scope admin."""
        change = ArmsChange(retire=tuple(retire), restore=tuple(restore))
        return self._connection.ask("/catalogue/arms", CatalogueVersion, change, method="PATCH")

    def delete_catalogue(self) -> CatalogueVersion:
        """Delete all arms of the catalogue. Needs a key with the scope admin."""
        return self._connection.ask("/catalogue", CatalogueVersion, method="DELETE")

    def catalogue(self) -> CatalogueStatus:
        """The version and the size of the catalogue. Needs a key that may read."""
        return self._connection.ask("/catalogue", CatalogueStatus)

    def arms(self) -> Iterator[Arm]:
        """The arms of the catalogue that are not retired, the oldest first. Needs a key that may read."""
        after: int | None = 0
        while after is not None:
            page = self._connection.ask(f"/catalogue/arms?after={after}", ArmsPage)
            yield from page.arms
            after = page.after

    def reward(self, event_id: str, value: float, *, key: str | None = None) -> Rewarded:
        """Tell what came of a decision.

        Args:
            event_id: of the decision.
            value: of the reward.
            key: a name for this reward: sent twice under the same name it counts once. Without one, a new one is made.
        """
        return self._connection.ask("/reward", Rewarded, _reward(event_id, value, key))

    def activate(self, event_id: str) -> Rewarded:
        """Let a deferred decision count."""
        return self._connection.ask("/activate", Rewarded, ActivateRequest(event_id=event_id))

    def batch(self, decide: Sequence[DecideRequest] = (), reward: Sequence[tuple[str, float]] = ()) -> BatchReply:
        """Many of both in one request, each with an outcome of its own.

        Args:
            decide: questions, as `question` makes them.
            reward: event ids and values. They may be of decisions in the same batch.
        """
        rewards = [_reward(event_id, value) for event_id, value in reward]
        return self._connection.ask("/batch", BatchReply, BatchRequest(decide=list(decide), reward=rewards))

    def explanation(self, event_id: str, *, limit: int = 20) -> Explanation:
        """Return what each feature contributed to the scores of an event's actions. Needs a key with the scope read.

        Args:
            event_id: of the decision.
            limit: the number of features listed for each action.
        """
        return self._connection.ask(f"/events/{quote(event_id, safe='')}/explanation?limit={limit}", Explanation)

    def status(self) -> Status:
        """How the loop is doing. Needs a key that may read."""
        return self._connection.ask("/status", Status)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
    return DecideRequest(arms=_finite_rows("arms", arms).tolist(), **more)


def _finite_rows(name: str, values: Any) -> Floats:
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InvalidInput(f"{name} must be finite numbers, (K, width), a row for each arm; got shape {rows.shape}")
    return rows


def _bodies(arms: Iterable[bytes]) -> Iterator[msgspec.Struct]:
    """Requests with the arms, each of a limited size."""
    part, size = list[msgspec.Raw](), 0
    for arm in arms:
        part.append(msgspec.Raw(arm))
        size += len(arm)
        if size > ARMS_AT_ONCE:
            yield _Arms(part)
            part, size = [], 0
    if part:
        yield _Arms(part)


def _reward(event_id: str, value: Any, key: str | None = None) -> EventRewardRequest:
    if not math.isfinite(value):
        raise InvalidInput(f"a reward must be a finite number; got {value!r}")
    return EventRewardRequest(event_id=event_id, value=float(value), key=key or new_event_id())
