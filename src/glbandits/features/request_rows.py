"""Rows for a feature map from a request: fields that all actions share, and fields of each action."""

from collections.abc import Mapping, Sequence
from typing import Any

from glbandits.common.errors import InvalidInput, value_text
from glbandits.features.transformer_features import Features


def request_rows(features: Features, shared: Any, actions: Sequence[Any], ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each action: the fields of the request and of the action.

    If each arm of the map has a block of features of its own, the id of an action is the name of its arm, unless its
    fields name the arm.

    Raises InvalidInput if the features are not objects.
    """
    context, block = merged_fields("the shared features", shared), getattr(features, "per_arm_block", None)
    return [
        {
            **context,
            **({} if block is None else {block: name}),
            **merged_fields(f"the features of action {index}", action),
        }
        for index, (action, name) in enumerate(zip(actions, ids, strict=True))
    ]


def merged_fields(owner: str, objects: Any) -> dict[str, Any]:
    """Merge the fields of an object or of a list of objects. `owner` names them in messages."""
    fields: dict[str, Any] = {}
    for part in objects if isinstance(objects, list | tuple) else [objects]:
        if not isinstance(part, Mapping):
            raise InvalidInput(f"{owner} must be an object or a list of objects; got {value_text(objects)}")
        fields |= part
    return fields
