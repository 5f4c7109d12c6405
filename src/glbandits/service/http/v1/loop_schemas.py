"""The configuration of a loop in requests and responses. Apart from `schemas`, because `LoopConfig` needs NumPy."""

from typing import Any

import msgspec

from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.http.v1.schemas import ApiStruct

LoopConfiguration: Any = msgspec.defstruct(
    "LoopConfiguration",
    [
        (field.name, field.type, msgspec.field(default=field.default, default_factory=field.default_factory))  # type: ignore[call-overload]
        for field in msgspec.structs.fields(LoopConfig)
    ],
    bases=(ApiStruct,),
    namespace={"__doc__": "Settings of a loop. With PUT, omitted settings get their defaults; with PATCH they stay."},
    frozen=True,
    kw_only=True,
)
"""`LoopConfig` in camelCase."""
