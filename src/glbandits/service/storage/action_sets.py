"""Sets of actions that many decisions share: the log has each distinct one of a loop once.

The slots of a ranking have the same actions and features, and so do many requests of a site. A decision with such a set
refers to it by a number: the sequence number of the first decision that did. A set that comes once stays in the body of
its decision, because a row and its index entry cost 50 us and a page of the disk.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from glbandits.service.domain.events import Decision, Event
from glbandits.service.domain.request_features import split_request

SHARED_BYTES = 1024
"""Bytes of the features of a set, at least."""
REMEMBERED = 10_000
"""Sets that a process recognises when they come again."""
DIGEST_BYTES = 16
SetName: TypeAlias = tuple[str, str]
"""Loop and digest of a set."""


class ActionSet(msgspec.Struct, frozen=True, array_like=True):
    """The fields of a decision that are in the row of its set."""

    request: bytes
    """The features of the actions: the end of `Decision.request`, which may begin with a context."""
    actions: tuple[str, ...]
    slots: tuple[str, ...]


_encode = msgspec.msgpack.Encoder().encode
decode_set = msgspec.msgpack.Decoder(ActionSet).decode


class SplitDecision(NamedTuple):
    """A decision in two parts."""

    rest: Decision
    """The decision without the fields of the set. Its request is the context."""
    name: SetName
    body: bytes
    """The encoded `ActionSet`."""


def with_set(rest: Decision, action_set: ActionSet) -> Decision:
    """Return the decision with the fields of its set."""
    request = rest.request + action_set.request  # the same object without a context
    return replace(rest, request=request, actions=action_set.actions, slots=action_set.slots)


class RecentSets:
    """Remembers the sets of recent decisions of this process. All threads may use it."""

    def __init__(self) -> None:
        self._lock, self._hashes = Lock(), OrderedDict[int, None]()

    def are_known(self, hashes: Sequence[int]) -> set[int]:
        """Return which sets came before, or come twice now, and remember all."""
        with self._lock:
            known = {each for each, count in Counter(hashes).items() if count > 1 or each in self._hashes}
            for each in hashes:
                self._hashes[each] = None
                self._hashes.move_to_end(each)
            while len(self._hashes) > REMEMBERED:
                self._hashes.popitem(last=False)
        return known


class BatchSets:
    """The sets of a batch that have, or get, rows of their own.

    Args:
        events: the batch.
        recent: finds the sets that came before.
    """

    def __init__(self, events: Sequence[Event], recent: RecentSets) -> None:
        self._parts: dict[int, tuple[bytes, bytes]] = {}
        """Context and features by the id of a request: all slots of an event have the same object."""
        self._encoded: dict[tuple[bytes, tuple[str, ...], tuple[str, ...]], tuple[str, bytes]] = {}
        large = [
            (event, hash((event.loop, features, event.actions, event.slots)))
            for event in events
            if isinstance(event, Decision)
            and len(event.request) >= SHARED_BYTES
            and (features := self._split(event)[1])
        ]
        self._known = recent.are_known([own for _, own in large]) if large else set[int]()
        named = (self.split(decision) for decision, own in large if own in self._known)
        self.names: set[SetName] = {split.name for split in named if split is not None}
        """Of all sets."""

    def _split(self, decision: Decision) -> tuple[bytes, bytes]:
        """Return the context and the features of a decision; no features if they are not large."""
        request = decision.request
        if len(request) < SHARED_BYTES:
            return request, b""
        if id(request) not in self._parts:
            context, features = split_request(decision)
            self._parts[id(request)] = (context, features) if len(features) >= SHARED_BYTES else (request, b"")
        return self._parts[id(request)]

    def split(self, decision: Decision) -> SplitDecision | None:
        """Return the parts of a decision; None if its set has no row."""
        context, features = self._split(decision)
        shared = features, decision.actions, decision.slots
        if not features or hash((decision.loop, *shared)) not in self._known:
            return None
        if shared not in self._encoded:
            body = _encode(ActionSet(*shared))
            self._encoded[shared] = blake2b(body, digest_size=DIGEST_BYTES).hexdigest(), body
        digest, body = self._encoded[shared]
        return SplitDecision(replace(decision, request=context, actions=(), slots=()), (decision.loop, digest), body)
