"""Select an action: its features, the probability of each one, and the draw. Nothing here reads a clock or a file."""

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
from numba import types

from glbandits.bandit import Bandit
from glbandits.compilation import Recipe, entry_point
from glbandits.errors import InvalidInput
from glbandits.maths.sparse_rows import as_sparse_rows
from glbandits.numba_support import READ_INTS, READ_VECTOR, VECTOR, jittable
from glbandits.records import Floats, Ints
from glbandits.serving.domain.arm_rows import Arms, count_of, rows_of
from glbandits.serving.domain.events import Decision, DecisionRequest
from glbandits.serving.domain.request_map import RequestEncoder, RequestMap

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
_described = msgspec.json.Decoder(Described).decode
_read = msgspec.json.Decoder().decode


def described_request(shared: Sequence[Any], actions: Sequence[Any]) -> bytes:
    """What is kept of such a request."""
    return msgspec.json.encode(Described(list(shared), list(actions)))


def width_of(decision: Decision | DecisionRequest, encoder: RequestEncoder) -> float:
    """Return the number of features of an action."""
    return len(decision.request) / (8 * len(decision.actions)) if decision.encoding == DENSE else encoder.width


def vectors_of(decision: Decision | DecisionRequest) -> Floats:
    """Return the vectors of a dense request, (K, width)."""
    return np.frombuffer(decision.request).reshape(len(decision.actions), -1)


def arms_of(decision: Decision | DecisionRequest, encoder: RequestEncoder) -> Arms:
    """Return the features of the actions: a matrix (K, width), or sparse rows if the encoder is sparse."""
    encoding = decision.encoding
    if encoding == DENSE:
        vectors = vectors_of(decision)
        return as_sparse_rows(vectors, vectors.shape[1]) if encoder.sparse else vectors
    if encoding != JSON:
        raise InvalidInput(f"a request is kept as {JSON} or {DENSE}; got {encoding!r}. Upgrade glbandits to read it")
    # Always from the text in the log: what is decided with is what can be read again.
    if isinstance(encoder, RequestMap):
        described = _described(decision.request)
        return encoder.arms(described.shared, described.actions, decision.actions)
    texts = _texts(decision.request)
    return encoder.arms(bytes(texts.shared), [bytes(text) for text in texts.actions], _read)


class Choice(msgspec.Struct, frozen=True):
    """The action that was drawn, and the probabilities that it was drawn with."""

    chosen: int
    """Index of the action."""
    probabilities: Floats
    """The exact probability of each action, (K,); 0 for an action that was not allowed."""


def seed_of(salt: str, event_id: str, slot: str) -> int:
    """Return 63 pseudo-random bits for the draw of an event, the same for the same event in the same loop."""
    digest = blake2b(f"{salt}\0{event_id}\0{slot}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # fits a signed 64-bit column


@cache
def _all(count: int) -> Ints:
    indices = np.arange(count)
    indices.flags.writeable = False
    return indices


def allowed_indices(count: int, excluded: Sequence[int]) -> Ints:
    """Return the indices of the actions that may be chosen. Raises InvalidInput if all are excluded."""
    if not excluded:
        return _all(count)
    allowed = np.setdiff1d(_all(count), np.asarray(excluded, dtype=np.int64))
    if not len(allowed):
        raise InvalidInput("all actions are excluded; leave at least one")
    return allowed


def decide(model: Bandit, arms: Arms, allowed: Ints, exploration: float, seed: int) -> Choice:
    """Draw one of the allowed actions.

    With probability `exploration` each allowed action is equally likely, otherwise the model decides. Raises
    InvalidInput if the policy has no exact probabilities.
    """
    # Of all actions first: the features of excluded actions are logged too, so the model must accept them.
    own = model.exact_probabilities(arms)
    if len(allowed) < count_of(arms):
        own = model.exact_probabilities(rows_of(arms, allowed))
    if own is None:
        raise InvalidInput(
            f"{model.policy.name} has no exact probabilities of actions, which a service must log. Use optimist."
        )
    probabilities = np.zeros(count_of(arms))
    chosen: int = entry_point(draw_recipe).call(own, allowed, exploration, share_of(seed), probabilities)
    return Choice(chosen, probabilities)


def share_of(seed: int) -> float:
    """Return a uniform number in [0, 1): the first 53 bits of the seed."""
    return (seed >> 10) * 2.0**-53


@jittable
def draw(probabilities: Floats, share: float) -> int:
    """Return the index at which the cumulative sum of the probabilities exceeds `share` of the total."""
    total = 0.0
    for probability in probabilities:
        total += probability
    cumulative, last = 0.0, 0
    for index in range(len(probabilities)):
        if probabilities[index] > 0.0:
            last = index
        cumulative += probabilities[index]
        if cumulative > share * total:
            return index
    return last


def draw_recipe() -> Recipe:
    """A compiled function that mixes exploration into the probabilities, writes them, and draws an action."""

    def mix_and_draw(own: Floats, allowed: Ints, exploration: float, share: float, probabilities: Floats) -> int:
        for index in range(len(allowed)):
            probabilities[allowed[index]] = (1.0 - exploration) * own[index] + exploration / len(allowed)
        return draw(probabilities, share)

    signature = types.int64(READ_VECTOR, READ_INTS, types.float64, types.float64, VECTOR)
    return Recipe(mix_and_draw, signature, "draw of an action", nogil=False)
