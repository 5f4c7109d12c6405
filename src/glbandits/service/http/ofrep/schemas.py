"""Requests and responses of the protocol."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from glbandits.service.http.v1.schemas import ApiStruct


class EvaluationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to evaluate one flag or all."""

    context: dict[str, Any]
    """`targetingKey`, the user or session, of which the log has a salted hash; and the features of the decision."""


class Metadata(ApiStruct, frozen=True, kw_only=True):
    """What a reward and an evaluation of the log need to know of the decision."""

    event_id: str
    probability: float
    """The probability of the variant."""
    model_version: str


class FlagEvaluation(ApiStruct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of a flag; or the error, among the flags of a bulk evaluation."""

    key: str
    value: bool | int | float | str | dict[str, Any] | UnsetType = UNSET
    reason: Literal["SPLIT", "DEFAULT", "STALE"] | UnsetType = UNSET
    """SPLIT: a learned or random decision. DEFAULT: control, or the loop is stopped. STALE: not known to be durable."""
    variant: str | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET
    error_code: str | UnsetType = UNSET
    error_details: str | UnsetType = UNSET


class Flags(ApiStruct, frozen=True, kw_only=True):
    """The values of all flags, for one context."""

    flags: list[FlagEvaluation]
