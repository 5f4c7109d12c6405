"""Features of the arms of a catalogue, before they are combined with a context."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.maths.sparse_rows import SparseRows
from glbandits.service.domain.catalogues.catalogue_records import CatalogueArm, NewArm
from glbandits.service.domain.events import DecisionRequest
from glbandits.service.domain.request_features import (
    DENSE,
    JSON,
    RequestEncoder,
    RequestMap,
    arms_of,
    encode_json_request,
)

ArmRecords: TypeAlias = Sequence[CatalogueArm] | Sequence[NewArm]


def features_of_arms(arms: ArmRecords, encoder: RequestEncoder) -> Floats:
    """Return the features of arms, (K, dim).

    Raises InvalidInput for different lengths and for unusable fields.
    """
    if arms[0].encoding == DENSE:
        if len({len(arm.features) for arm in arms}) > 1:
            other = next(arm for arm in arms if len(arm.features) != len(arms[0].features))
            raise InvalidInput(
                f"all arms must have the same number of features; {arms[0].id!r} has {len(arms[0].features) // 8}, and "
                f"{other.id!r} has {len(other.features) // 8}"
            )
        return np.frombuffer(b"".join(arm.features for arm in arms)).reshape(len(arms), -1)
    if encoder.sparse:
        raise InvalidInput("a catalogue needs a loop with dense features; this loop is sparse")
    ids = tuple(arm.id for arm in arms)
    if isinstance(encoder, RequestMap):
        return encoder.arm_features([msgspec.json.decode(arm.features) for arm in arms], ids)
    request = DecisionRequest(event_id="", request=encode_json_arms(arms, None), encoding=JSON, actions=ids)
    features = arms_of(request, encoder)
    assert not isinstance(features, SparseRows)
    return features


def encode_json_arms(arms: ArmRecords, context: object) -> bytes:
    """Encode arms with named fields, and their context, for `Decision.request`."""
    return encode_json_request([] if context is None else [context], [[msgspec.Raw(arm.features)] for arm in arms])


def context_size(dim: int, width: int) -> int | None:
    """Return the size of a context with which `cross_features` of arms has this width.

    None if there is no such size. For arms of p = `dim` features and a context of q numbers the width is p + q + p q,
    so q is 0 without a context.
    """
    return (width - dim) // (dim + 1) if width >= dim and (width - dim) % (dim + 1) == 0 else None
