"""Read and forge model files."""

import json
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


def forged(content: bytes, arrays: dict[str, Any] | None = None, **changes: Any) -> bytes:
    """Change arrays and fields of the header, and compute a valid digest.

    None removes a field.
    """
    tensors = dict(load(content)) | (arrays or {})
    fields = header_of(content) | {"digest": None} | changes
    header = {name: value for name, value in fields.items() if value is not None}
    header["digest"] = content_digest(header, tensors["state"], tensors["generator"])
    return save(tensors, metadata=header)
