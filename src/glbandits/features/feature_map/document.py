"""The JSON document of a feature map: conversion to the arguments of `FeatureMap`.

Never unpickles.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from glbandits.common.errors import GlbanditsError, InvalidInput, lookup
from glbandits.features.feature_map.random_fourier import RandomFourier
from glbandits.features.kinds.categorical import Category, Tags
from glbandits.features.kinds.column_kind import ColumnKind
from glbandits.features.kinds.dates import Date
from glbandits.features.kinds.hashed_text import Hashed, Text
from glbandits.features.kinds.numeric import Boolean, Number, Vector

VERSION = 1
KINDS: dict[str, type[ColumnKind]] = {
    kind.kind: kind for kind in (Number, Boolean, Vector, Date, Category, Hashed, Text, Tags)
}


def check_version(document: Any) -> None:
    """Raise InvalidInput if this version of glbandits cannot read the document."""
    version = document.get("version") if isinstance(document, dict) else None
    if version != VERSION:
        raise InvalidInput(
            f"the feature map has format version {version!r}; this version of glbandits reads {VERSION}. "
            "Upgrade glbandits"
        )


@contextmanager
def document_errors() -> Iterator[None]:
    """Convert all errors that a wrong document causes inside the `with` block to InvalidInput."""
    try:
        yield
    except GlbanditsError as error:
        raise InvalidInput(f"the feature map is not valid: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInput(f"the feature map is damaged: {type(error).__name__} {error}") from None


def constructor_arguments(document: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of `FeatureMap` from a document of this version."""
    crosses = document["crosses"]
    block = document["per_arm_block"]
    if block is not None and not isinstance(block, str):
        raise InvalidInput(f"per_arm_block must be the name of a column; got {block!r}")
    return {
        "arm": _kinds(document["arm"]),
        "context": _kinds(document["context"]),
        "own": _kinds(document["own"]),
        "crosses": crosses if crosses == "all" else [(left, right) for left, right in crosses],
        "per_arm_block": block,
        "expansions": [RandomFourier(**expansion) for expansion in document["expansions"]],
        "missing_shares": {str(name): float(share) for name, share in document["missing_shares"].items()},
        # Maps of earlier versions have no examples.
        "examples": {str(name): value for name, value in document.get("examples", {}).items()},
    }


def _kinds(document: dict[str, Any]) -> dict[str, ColumnKind]:
    return {name: _kind(settings) for name, settings in document.items()}


def _kind(document: dict[str, Any]) -> ColumnKind:
    settings = dict(document)
    kind = lookup("kind of a column", settings.pop("kind"), KINDS)
    known = {field.name for field in fields(kind) if field.init}
    if not known - kind.optional <= set(settings) <= known:
        raise InvalidInput(f"a column of kind {kind.kind} has the settings {sorted(known)}; got {sorted(settings)}")
    return kind(**settings)
