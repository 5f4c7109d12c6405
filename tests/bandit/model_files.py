"""Read and forge model files."""

import json
from collections.abc import Mapping
from typing import Any

from safetensors.numpy import load, save

from glbandits.bandit.model_file import content_digest


def header_of(content: bytes) -> dict[str, str]:
    """The header of a model file."""
    length = int.from_bytes(content[:8], "little")
    header: dict[str, str] = json.loads(content[8 : 8 + length])["__metadata__"]
    return header


def with_header(content: bytes, **changes: str) -> bytes:
    """Change fields of the header without a new digest."""
    return save(load(content), metadata=header_of(content) | changes)


def forged(content: bytes, header: Mapping[str, str | None], arrays: Mapping[str, Any] | None = None) -> bytes:
    """Change fields of the header and arrays, and compute a valid digest.

    None removes a field of the header.
    """
    tensors = {**load(content), **(arrays or {})}
    changed: dict[str, str | None] = {**header_of(content), "digest": None, **header}
    fields = {name: value for name, value in changed.items() if value is not None}
    fields["digest"] = content_digest(fields, tensors["state"], tensors["generator"])
    return save(tensors, metadata=fields)
