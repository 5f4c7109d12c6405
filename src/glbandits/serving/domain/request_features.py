"""From a request to the features of its actions; the same when it is decided, learned and checked."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from glbandits.errors import InvalidInput
from glbandits.features import Hashing
from glbandits.records import Floats
from glbandits.serving.domain.events import Decision

JSON, DENSE = "json", "dense"


class Described(msgspec.Struct, frozen=True):
    """A request whose features are JSON objects."""

    shared: list[Any]
    actions: list[Any]


class Texts(msgspec.Struct, frozen=True):
    """Such a request as it is kept, with the text of each object."""

    shared: msgspec.Raw
    actions: list[msgspec.Raw]


_texts = msgspec.json.Decoder(Texts).decode
_read = msgspec.json.Decoder().decode


def described_request(shared: Sequence[Any], actions: Sequence[Any]) -> bytes:
    """What is kept of such a request."""
    return msgspec.json.encode(Described(list(shared), list(actions)))


def arms_of(request: bytes, encoding: str, actions: int, hashing: Hashing) -> Floats:
    """The features of the actions, (K, width)."""
    if encoding == DENSE:
        return np.frombuffer(request).reshape(actions, -1)
    if encoding != JSON:
        raise InvalidInput(f"a request is kept as {JSON} or {DENSE}; got {encoding!r}. Upgrade glbandits to read it")
    # Always from the text that is kept: what is decided with is what can be read again.
    texts = _texts(request)
    return hashing.vectors_of_texts(bytes(texts.shared), [bytes(text) for text in texts.actions], _read)


def decision_arms(decision: Decision, hashing: Hashing) -> Floats:
    """The features of the actions of a decision that was kept, (K, width)."""
    return arms_of(decision.request, decision.encoding, len(decision.actions), hashing)
