"""Requests of JSON objects, made features by the feature map of a model, or hashed if it has none."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from glbandits.bandit import Bandit
from glbandits.errors import InvalidInput
from glbandits.features import FeatureMap, Hashing
from glbandits.features.feature_map.checks import check_fields
from glbandits.features.feature_map.column_group import ColumnGroup
from glbandits.features.table_columns import table_columns
from glbandits.maths.sparse_rows import as_sparse_rows
from glbandits.records import Floats
from glbandits.serving.domain.arm_rows import Arms


class RequestMap:
    """A feature map for requests: the fields of the context and of each action are the columns of a row.

    If each arm has a block of features, the id of an action is the name of its arm, unless its fields name it.
    """

    def __init__(self, features: FeatureMap, *, sparse: bool = False) -> None:
        self.features, self.width, self.sparse = features, features.dim, sparse

    def arms(self, shared: Any, actions: Sequence[Any], ids: Sequence[str]) -> Arms:
        """The features of the actions. Raises InvalidInput if a field is missing or cannot be used."""
        context, block = _fields("shared features", shared), self.features.per_arm_block
        rows = [
            {**context, **({} if block is None else {block: name}), **_fields(f"features of action {index}", action)}
            for index, (action, name) in enumerate(zip(actions, ids, strict=True))
        ]
        features = self.features.transform(rows, sparse=self.sparse)
        return as_sparse_rows(features, self.width) if self.sparse else features

    def arm_features(self, actions: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> Floats:
        """The features of the columns of arms alone, as `combine` takes them. Raises InvalidInput as `arms` does."""
        if self.features.own.width:
            raise InvalidInput(
                f"the feature map has columns that belong to one row and one arm ({', '.join(self.features.own.kinds)})"
                ", which a stored arm cannot have"
            )
        block = self.features.per_arm_block
        named = zip(actions, ids, strict=True)
        return self._encoded(
            self.features.arm, [{**({} if block is None else {block: name}), **a} for a, name in named]
        )

    def context_features(self, context: Mapping[str, Any]) -> Floats:
        """The features of the columns of the context. Raises InvalidInput if a field is missing or cannot be used."""
        features: Floats = self._encoded(self.features.context, [context])[0]
        return features

    def combine(self, arms: Floats, context: Floats) -> Floats:
        """The features that the model sees, from `arm_features` and `context_features`."""
        return self.features.combination.combine(arms, context, None)

    def _encoded(self, group: ColumnGroup, rows: list[Any]) -> Floats:
        columns, kinds = table_columns(rows, group.kinds), self.features.kinds
        for index, row in enumerate(rows):
            check_fields([name for name in group.kinds if "." not in name and name not in row], row, kinds, index)
        check_fields([name for name in group.kinds if name not in columns], columns, kinds, None)
        return group.encode(columns, len(rows))


class RequestHashing:
    """Hashing for requests, to vectors or to sparse rows."""

    def __init__(self, hashing: Hashing, *, sparse: bool = False) -> None:
        self.hashing, self.width, self.sparse = hashing, hashing.width, sparse

    def arms(self, shared: bytes, actions: Sequence[bytes], read: Callable[[bytes], Any]) -> Arms:
        """The features of the actions, from texts as `Hashing.vectors_of_texts` takes them."""
        make = self.hashing.rows_of_texts if self.sparse else self.hashing.vectors_of_texts
        return make(shared, actions, read)


RequestEncoder: TypeAlias = RequestHashing | RequestMap


def encoder_of(bandit: Bandit, hashings: dict[int, Hashing] | None = None) -> RequestEncoder:
    """What makes features of requests for a model: its feature map, or else hashing to its width.

    Args:
        bandit: the model.
        hashings: by width. One that is there is used again, because it remembers what it has hashed.
    """
    if isinstance(bandit.features, FeatureMap):
        return RequestMap(bandit.features, sparse=bandit.sparse)
    hashing = Hashing(width=bandit.dim)
    return RequestHashing(
        hashing if hashings is None else hashings.setdefault(bandit.dim, hashing), sparse=bandit.sparse
    )


def _fields(owner: str, objects: Any) -> dict[str, Any]:
    """The fields of an object, or of several taken together."""
    fields: dict[str, Any] = {}
    for part in [objects] if isinstance(objects, Mapping) else objects:
        if not isinstance(part, Mapping):
            raise InvalidInput(f"{owner}: they must be an object or a list of objects; got {repr(objects)[:60]}")
        fields |= part
    return fields
