"""Requests of JSON objects, made features by the feature map of a model, or hashed if it has none."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from glbandits.bandit import Bandit
from glbandits.errors import InvalidInput
from glbandits.features import FeatureMap, Hashing
from glbandits.records import Floats


class RequestMap:
    """A feature map for requests: the fields of the context and of each action are the columns of a row.

    If each arm has a block of features, the id of an action is the name of its arm, unless its fields name it.
    """

    def __init__(self, features: FeatureMap) -> None:
        self.features, self.width = features, features.dim

    def arms(self, shared: Any, actions: Sequence[Any], ids: Sequence[str]) -> Floats:
        """The features of the actions, (K, width). Raises InvalidInput if a field is missing or cannot be used."""
        context, block = _fields("shared features", shared), self.features.per_arm_block
        rows = [
            {**context, **({} if block is None else {block: name}), **_fields(f"features of action {index}", action)}
            for index, (action, name) in enumerate(zip(actions, ids, strict=True))
        ]
        features: Floats = self.features.transform(rows)
        return features


RequestEncoder: TypeAlias = Hashing | RequestMap


def encoder_of(bandit: Bandit) -> RequestEncoder:
    """What makes features of requests for a model: its feature map, or else hashing to its width."""
    features = bandit.features
    return RequestMap(features) if isinstance(features, FeatureMap) else Hashing(width=bandit.dim)


def _fields(owner: str, objects: Any) -> dict[str, Any]:
    """The fields of an object, or of several taken together."""
    fields: dict[str, Any] = {}
    for part in [objects] if isinstance(objects, Mapping) else objects:
        if not isinstance(part, Mapping):
            raise InvalidInput(f"{owner}: they must be an object or a list of objects; got {repr(objects)[:60]}")
        fields |= part
    return fields
