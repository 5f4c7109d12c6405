"""The features of a request: their encoding in the log, and the matrix for the model.

A request has one of two encodings. `DENSE` is float64 numbers, a row for each action. `JSON` is an object with the
features that all actions share and those of each action. The feature map of the model turns JSON into numbers. A model
without a feature map gets hashed features.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
import numpy as np

from glbandits.bandit import Bandit
from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput
from glbandits.features import FeatureMap, Hashing
from glbandits.features.feature_map.checks import check_row, similar_field
from glbandits.features.kinds.categorical import Category, as_category
from glbandits.features.kinds.hashed_text import Hashed
from glbandits.features.table_columns import merged_fields, request_rows
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows
from glbandits.service.domain.events import Decision, DecisionRequest

JSON, DENSE = "json", "dense"

Arms: TypeAlias = Floats | SparseRows
"""The features of the actions of a decision, a row each: a matrix, or sparse rows for a sparse model."""


class JsonRequest(msgspec.Struct, frozen=True):
    """A request in the encoding `JSON`."""

    shared: list[Any]
    actions: list[Any]


class RawJsonRequest(msgspec.Struct, frozen=True):
    """The same request with undecoded objects."""

    shared: msgspec.Raw
    actions: list[msgspec.Raw]


class RawActions(msgspec.Struct, frozen=True):
    """The features of all actions of the same request, undecoded."""

    actions: msgspec.Raw


_decode_actions = msgspec.json.Decoder(RawActions).decode
_decode_raw_request = msgspec.json.Decoder(RawJsonRequest).decode
_decode_request = msgspec.json.Decoder(JsonRequest).decode
_decode = msgspec.json.Decoder().decode


def encode_json_request(shared: Sequence[Any], actions: Sequence[Any]) -> bytes:
    """Encode the shared features and those of each action for `Decision.request`."""
    return msgspec.json.encode(JsonRequest(list(shared), list(actions)))


def joined_json_request(shared: bytes, actions: Iterable[bytes]) -> bytes:
    """Return what `encode_json_request` does, from the encoded shared features and those of each action."""
    return b'{"shared":%b,"actions":[%b]}' % (shared, b",".join(actions))


def split_request(request: DecisionRequest) -> tuple[bytes, bytes]:
    """Return `request` in two parts: the context, which is empty for a dense request, and the features of the actions.

    The second one is the same for all requests with the same actions.
    """
    content = request.request
    with suppress(msgspec.MsgspecError):  # a request that cannot be decoded stays whole
        if request.encoding == JSON and content.endswith(features := bytes(_decode_actions(content).actions) + b"}"):
            return content[: -len(features)], features
    return b"", content


class RequestMap:
    """Turns requests into features with a feature map.

    The fields of the context and of an action are the columns of a row. If each arm has a block of features of its own,
    the id of an action is the name of its arm, unless its fields name the arm. `check_arm_names` refuses requests
    in which the two differ.
    """

    def __init__(self, features: FeatureMap, *, sparse: bool = False) -> None:
        self.features, self.width, self.sparse = features, features.dim, sparse

    def arms(self, shared: Any, actions: Sequence[Any], ids: Sequence[str]) -> Arms:
        """Return the features of the actions. Raises InvalidInput if a field is missing or unusable."""
        rows = request_rows(self.features, shared, actions, ids)
        features = self.features.transform(rows, sparse=self.sparse)
        return as_sparse_rows(features, self.width) if self.sparse else features


class RequestHashing:
    """Turns requests into hashed features: vectors, or sparse rows."""

    def __init__(self, hashing: Hashing, *, sparse: bool = False) -> None:
        self.hashing, self.width, self.sparse = hashing, hashing.width, sparse


RequestEncoder: TypeAlias = RequestHashing | RequestMap


def encoder_of(bandit: Bandit, hashings: dict[int, Hashing] | None = None) -> RequestEncoder:
    """Return the encoder of requests for a model: its feature map, or else hashing.

    Args:
        bandit: the model.
        hashings: a cache of `Hashing` by width. A cached one is reused, because it caches the features it has hashed.
    """
    if isinstance(bandit.features, FeatureMap):
        return RequestMap(bandit.features, sparse=bandit.sparse)
    hashing = Hashing(width=bandit.dim)
    return RequestHashing(
        hashing if hashings is None else hashings.setdefault(bandit.dim, hashing), sparse=bandit.sparse
    )


def row_names(rows: Sequence[Mapping[str, Any]], encoder: RequestEncoder) -> list[str | None]:
    """Return the name of the arm in each row without an id; None where the row does not name it.

    The name is in the column of the arms' blocks, or else in the only field that the feature map does not use, or else
    in the only arm column with categories.
    """
    if not isinstance(encoder, RequestMap):
        return [None] * len(rows)
    features, column = encoder.features, encoder.features.per_arm_block
    if column is None:
        unused = [name for name in rows[0] if name not in features.kinds]
        categories = [name for name, kind in features.arm.kinds.items() if isinstance(kind, Category | Hashed)]
        column = next((names[0] for names in (unused, categories) if len(names) == 1), "")
    return [as_category(row.get(column)) for row in rows]


def check_arm_names(actions: Iterable[Sequence[Any]], ids: Sequence[str], encoder: RequestEncoder) -> None:
    """Raise InvalidInput if the fields of an action name another arm than its id, or if two ids name the same arm."""
    column = encoder.features.per_arm_block if isinstance(encoder, RequestMap) else None
    if column is None:
        return
    names = list(map(as_category, ids))
    for index, (parts, action_id) in enumerate(zip(actions, ids, strict=True)):
        name = as_category(merged_fields("an action", parts).get(column))
        if name not in (None, action_id, names[index]):
            raise InvalidInput(
                f"action {index} has the id {action_id!r}, but its field {column!r} names the arm {name!r}. Send the "
                "same name in both"
            )
    _check_different(names, [{}] * len(ids))


def check_arm_fields(actions: Sequence[Sequence[Any]], encoder: RequestEncoder) -> None:
    """Raise InvalidInput if an action without an id misspells or lacks the field that names its arm.

    Also raises it if two actions name the same arm and have equal fields. The index of an action stands for the name
    only if an arm has that name.
    """
    if not isinstance(encoder, RequestMap) or encoder.features.per_arm_block is None:
        return
    block, kinds = encoder.features.per_arm_block, encoder.features.kinds
    arm_kind = kinds[block]
    fields_of_actions = [merged_fields(f"the features of action {index}", parts) for index, parts in enumerate(actions)]
    for index, fields in enumerate(fields_of_actions):
        is_index = isinstance(arm_kind, Category) and str(index) in arm_kind.values
        if block not in fields and not (is_index and similar_field(block, fields, kinds) is None):
            check_row(fields, {"arm": (block,)}, kinds, index)
    names = [as_category(fields.pop(block, None)) for fields in fields_of_actions]
    _check_different(names, fields_of_actions)


def _check_different(names: Sequence[str | None], other_fields: Sequence[Mapping[str, Any]]) -> None:
    """Raise InvalidInput if two actions name the same arm and have equal other fields."""
    if len(set(names)) == len(names):
        return
    first: dict[tuple[str | None, bytes], int] = {}
    for index, (name, fields) in enumerate(zip(names, other_fields, strict=True)):
        same = first.setdefault((name, msgspec.json.encode(fields, order="sorted")), index)
        if name is not None and same != index:
            raise InvalidInput(
                f"actions {same} and {index} are the same arm, {name!r}, with equal fields. Send each arm of a "
                "decision once"
            )


def width_of(decision: Decision | DecisionRequest, encoder: RequestEncoder) -> float:
    """Return the number of features of an action.

    It is not whole if the body of a dense request has a wrong size.
    """
    return len(decision.request) / (8 * len(decision.actions)) if decision.encoding == DENSE else encoder.width


def vectors_of(decision: Decision | DecisionRequest) -> Floats:
    """Return the vectors of a dense request, (K, width)."""
    return np.frombuffer(decision.request).reshape(len(decision.actions), -1)


def arms_of(decision: Decision | DecisionRequest, encoder: RequestEncoder) -> Arms:
    """Return the features of the actions, (K, width); sparse rows from a sparse encoder."""
    if decision.encoding == DENSE:
        vectors = vectors_of(decision)
        return as_sparse_rows(vectors, vectors.shape[1]) if encoder.sparse else vectors
    # Decode the text that is logged, so that a replay computes the same features.
    if isinstance(encoder, RequestMap):
        request = _decode_request(decision.request)
        return encoder.arms(request.shared, request.actions, decision.actions)
    raw = _decode_raw_request(decision.request)
    make = encoder.hashing.rows_of_texts if encoder.sparse else encoder.hashing.vectors_of_texts
    return make(bytes(raw.shared), [bytes(text) for text in raw.actions], _decode)


def fields_of(decision: Decision) -> tuple[str, list[str]] | None:
    """Return the fields of a request as JSON: those that all actions share, and those of each action.

    Returns None for a dense request, which has numbers only.
    """
    if decision.encoding != JSON:
        return None
    raw = _decode_raw_request(decision.request)
    return bytes(raw.shared).decode(), [bytes(text).decode() for text in raw.actions]


def count_of(arms: Arms) -> int:
    """Return the number of actions."""
    return arms.row_count if isinstance(arms, SparseRows) else len(arms)


def rows_of(arms: Arms, indices: Ints) -> Arms:
    """Return the features of the actions at these indices."""
    if isinstance(arms, SparseRows):
        return arms.take(indices)
    rows: Floats = arms[indices]
    return rows


def row_of(arms: Arms, index: int) -> Arms:
    """Return the features of one action, for `Bandit.learn`."""
    if isinstance(arms, SparseRows):
        return arms.row(index)
    row: Floats = arms[index]
    return row
