"""Features of the arms of a catalogue, before they meet a context."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from glbandits.errors import InvalidInput
from glbandits.maths.sparse_rows import SparseRows
from glbandits.records import Floats
from glbandits.serving.domain.action_selection import DENSE, JSON, arms_of, described_request
from glbandits.serving.domain.catalogue_arms import CatalogueArm, NewArm
from glbandits.serving.domain.events import DecisionRequest
from glbandits.serving.domain.request_map import RequestEncoder, RequestMap

Arms: TypeAlias = Sequence[CatalogueArm] | Sequence[NewArm]


def features_of_arms(arms: Arms, encoder: RequestEncoder) -> Floats:
    """The features of arms, (K, dim). Raises InvalidInput if they have different lengths, or unusable fields."""
    if arms[0].encoding == DENSE:
        if len({len(arm.features) for arm in arms}) > 1:
            other = next(arm for arm in arms if len(arm.features) != len(arms[0].features))
            raise InvalidInput(
                f"all arms must have as many features; {arms[0].id!r} has {len(arms[0].features) // 8}, and "
                f"{other.id!r} has {len(other.features) // 8}"
            )
        return np.frombuffer(b"".join(arm.features for arm in arms)).reshape(len(arms), -1)
    ids = tuple(arm.id for arm in arms)
    if isinstance(encoder, RequestMap) and not encoder.sparse:
        return encoder.arm_features([msgspec.json.decode(arm.features) for arm in arms], ids)
    request = DecisionRequest(event_id="", request=described_arms(arms, None), encoding=JSON, actions=ids)
    features = arms_of(request, encoder)
    if isinstance(features, SparseRows):
        raise InvalidInput("a catalogue needs a loop with dense features, and this one is sparse")
    return features


def described_arms(arms: Arms, context: object) -> bytes:
    """Arms of named fields as a decision has them."""
    return described_request([] if context is None else [context], [[msgspec.Raw(arm.features)] for arm in arms])


def context_size(dim: int, width: int) -> int | None:
    """The size q of contexts for which `cross_features` has this width, 0 without one; None if there is none."""
    return (width - dim) // (dim + 1) if width >= dim and (width - dim) % (dim + 1) == 0 else None
