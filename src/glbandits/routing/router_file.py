"""The file of a saved PromptRouter: a zip archive of model files and a JSON document."""

import io
import json
import zlib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from glbandits.bandit import Bandit
from glbandits.common.atomic_files import write_atomically
from glbandits.common.errors import ModelFileError

VERSION = 1
"""The version of the format."""
DOCUMENT, QUALITY, COSTS = "router.json", "quality.safetensors", "costs-{}.safetensors"


def write_router(path: str | PathLike[str], document: dict[str, Any], quality: Bandit, costs: Sequence[Bandit]) -> None:
    """Replace the file atomically. `costs` has a bandit for each model."""
    content = io.BytesIO()
    with ZipFile(content, "w") as archive:
        archive.writestr(DOCUMENT, json.dumps({"version": VERSION, **document}))
        archive.writestr(QUALITY, quality.to_bytes())
        for model, bandit in enumerate(costs):
            archive.writestr(COSTS.format(model), bandit.to_bytes())
    write_atomically(path, content.getvalue())


def read_router(path: str | PathLike[str]) -> tuple[dict[str, Any], Bandit, list[Bandit]]:
    """Return what `write_router` wrote. Raises ModelFileError if it is missing, damaged or of a newer version."""
    try:
        with ZipFile(Path(path)) as archive:
            document = json.loads(archive.read(DOCUMENT))
            if document["version"] > VERSION:
                raise ModelFileError(f"{path} has router format {document['version']}. Upgrade glbandits to load it")
            costs = [Bandit.from_bytes(archive.read(COSTS.format(model))) for model in range(len(document["models"]))]
            return document, Bandit.from_bytes(archive.read(QUALITY)), costs
    except FileNotFoundError:
        raise ModelFileError(f"there is no file {path}. Check the path") from None
    except (BadZipFile, EOFError, KeyError, OSError, RuntimeError, TypeError, ValueError, zlib.error) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path} is not a complete file of PromptRouter.save ({error}). Load a copy") from None
