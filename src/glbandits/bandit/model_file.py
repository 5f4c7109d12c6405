"""Model files: safetensors files with arrays, and the settings in their header.

Never pickle.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, deserialize
from safetensors.numpy import load, save

from glbandits.bandit.budget import Budget
from glbandits.bandit.training_rows import TrainingRows
from glbandits.common.arrays import Floats, Generator
from glbandits.common.atomic_files import write_atomically
from glbandits.common.errors import GlbanditsError, InvalidInput, ModelFileError, lookup
from glbandits.features import FeatureMap
from glbandits.features.transformer_features import Features
from glbandits.policies import POLICIES
from glbandits.policies.contract import Policy, rebuild, settings_of
from glbandits.policies.sparse_forms import sparse_form

FORMAT = "glbandits-model"
Contents: TypeAlias = tuple[dict[str, str], dict[str, npt.NDArray[Any]]]
"""The header and the arrays of a model file."""
MIGRATIONS: dict[int, Callable[[Contents], Contents]] = {}
"""The step to each version of the format after the first one. A step never changes once it is released."""
DENSE, SPARSE = "dense", "sparse"


def format_version() -> int:
    """Return the version of the format that this version of glbandits writes."""
    return 1 + len(MIGRATIONS)


def model_bytes(
    policy: Policy,
    dim: int,
    state: Floats,
    rng: Generator,
    *,
    sparse: bool = False,
    features: Features | None = None,
    budget: Budget | None = None,
    training: TrainingRows | None = None,
) -> bytes:
    """The content of a model file."""
    header = {
        "format": FORMAT,
        "format_version": str(format_version()),
        "policy": policy.name,
        "settings": json.dumps(settings_of(policy), sort_keys=True),
        "dim": str(dim),
        "rows": SPARSE if sparse else DENSE,
    }
    if features is not None:
        header["features"] = json.dumps(features.document())
    if budget is not None:
        header["budget"] = json.dumps(asdict(budget))
    arrays = {"state": state, "generator": rng}
    if training is not None:
        header["training"] = json.dumps(training.settings())
        arrays["training"] = training.hashes
    header["digest"] = content_digest(header, state, rng)
    return save(arrays, metadata=header)


def write_model(path: str | PathLike[str], content: bytes) -> None:
    """Write a model file atomically: a reader sees the old file or the new one."""
    write_atomically(path, content)


def read_model(path: str | PathLike[str]) -> bytes:
    """Read a file. Raises ModelFileError if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"there is no file {path}. Check the path") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error}") from None


def can_be_loaded(form: Policy, state: Floats, dim: int) -> bool:
    """Whether `parse_model` accepts this state: its numbers are finite, and the policy says that it is valid."""
    return bool(np.isfinite(state).all()) and form.is_valid_state(state, dim)


class ParsedModel(NamedTuple):
    """The content of a model file."""

    policy: Policy
    form: Policy
    """The policy that chooses and learns: the sparse form of `policy`, or `policy` itself."""
    dim: int
    state: Floats
    rng: Generator
    features: Features | None
    budget: Budget | None = None
    training: TrainingRows | None = None
    """The rows of the log that it learned, if it was trained on one."""


def parse_model(content: bytes, name: str, given: Policy | None, features: Features | None) -> ParsedModel:
    """Check and decode the content of a model file.

    Args:
        content: the bytes of the file.
        name: the name of the file in errors.
        given: the policy that the user passed, if any.
        features: the features that the user passed, if any.

    Raises:
        ModelFileError: if the content is damaged, or does not match the given policy or features.
    """
    header, state, rng, training = _open(content, name)
    policy = _policy(name, header, given)
    feature_map = _features(name, header, features)
    try:
        form = sparse_form(policy, header.dim) if header.is_sparse else policy
        budget = None if header.budget is None else Budget(**header.budget)
    except (InvalidInput, TypeError) as error:
        raise ModelFileError(f"{name} is damaged, or was written by another version: {error}") from None
    if not can_be_loaded(form, state, header.dim):
        raise ModelFileError(
            f"{name} has a state that is not valid for {policy.name} and its settings. Load another copy"
        )
    return ParsedModel(policy, form, header.dim, state, rng, feature_map, budget, training)


class Header(NamedTuple):
    """The settings in the header of a model file."""

    policy: str
    settings: dict[str, Any]
    dim: int
    is_sparse: bool
    features: Any
    """The document of the feature map; None if the model has none."""
    budget: Any
    """The fields of the Budget; None if the model has none."""


def _open(content: bytes, path: str) -> tuple[Header, Floats, Generator, TrainingRows | None]:
    try:
        deserialize(content)  # type: ignore[no-untyped-call]  # raises SafetensorError if the file is truncated
        length = int.from_bytes(content[:8], "little")
        metadata = dict(json.loads(content[8 : 8 + length]).get("__metadata__", {}))
        _check_format(path, metadata)
        tensors = load(content)
        if metadata.pop("digest") != content_digest(metadata, tensors["state"], tensors["generator"]):
            raise ModelFileError(f"{path} was changed or damaged after it was saved. Load another copy")
        for version in range(int(metadata["format_version"]) + 1, format_version() + 1):
            metadata, tensors = MIGRATIONS[version]((metadata, tensors))
        state, rng = tensors["state"], tensors["generator"]
        is_sparse = (DENSE, SPARSE).index(metadata.get("rows", DENSE)) == 1
        features, budget = (json.loads(metadata.get(name, "null")) for name in ("features", "budget"))
        settings, dim = json.loads(metadata["settings"]), int(metadata["dim"])
        header = Header(metadata["policy"], settings, dim, is_sparse, features, budget)
        valid_arrays = state.dtype == np.float64, rng.dtype == np.uint64, rng.shape == (3,)
        valid_header = isinstance(header.settings, dict), header.dim > 0
        training = _training(metadata, tensors)
    except SafetensorError as error:
        raise ModelFileError(f"{path} is not a complete safetensors file ({error}). Load another copy") from None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path} was changed or damaged after it was saved ({error}). Load another copy") from None
    if not all(valid_arrays + valid_header):
        raise ModelFileError(f"{path} was changed or damaged after it was saved. Load another copy")
    return header, state, rng, training


def _training(metadata: dict[str, str], tensors: dict[str, Any]) -> TrainingRows | None:
    """The rows that the model learned. Raises ValueError if they were changed."""
    if "training" not in metadata:
        return None
    settings, hashes = json.loads(metadata["training"]), tensors["training"]
    training = TrainingRows(int(settings["rows"]), int(settings["window"]), hashes)
    if hashes.dtype != np.uint64 or training.settings() != settings:
        raise ValueError("other hashes of its training rows")
    return training


def _check_format(path: str, metadata: dict[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise ModelFileError(f"{path} is a safetensors file, but was not written by Bandit.save")
    version = metadata.get("format_version", "")
    if not version.isdecimal() or not 1 <= int(version) <= format_version():
        raise ModelFileError(
            f"{path} has model format {version!r}; this version of glbandits reads up to {format_version()}. "
            "Upgrade glbandits to load it"
        )


def _policy(path: str, header: Header, given: Policy | None) -> Policy:
    if given is not None:
        if given.name != header.policy or _as_json(settings_of(given)) != header.settings:
            raise ModelFileError(
                f"{path} was saved with {header.policy} {header.settings}; got {given.name} "
                f"{settings_of(given)}. Pass the same settings, or no policy"
            )
        return given
    try:
        return rebuild(lookup("policy", header.policy, POLICIES), header.settings)
    except (GlbanditsError, TypeError) as error:
        raise ModelFileError(
            f"{path} has a policy or link that is not part of glbandits ({error}). Pass the policy: "
            "Bandit.load(path, policy=...)"
        ) from None


def _features(path: str, header: Header, given: Features | None) -> Features | None:
    document = header.features
    if isinstance(document, dict) and "transformer" in document:
        if given is None:
            raise ModelFileError(
                f"{path} was saved with the transformer {document['transformer']}, which a model file does not "
                "contain. Pass it: Bandit.load(path, features=...)"
            )
        features: Features | None = given
        same = list(given.names) == document.get("names")
    else:
        try:
            features = None if document is None else FeatureMap.from_document(document)
        except GlbanditsError as error:
            raise ModelFileError(f"{path}: {error}") from None
        same = given is None or given == features
    if not same or (features is not None and features.dim != header.dim):
        raise ModelFileError(f"{path} was saved with other features than the given ones. Pass the same, or none")
    return features


def _as_json(settings: dict[str, Any]) -> Any:
    return json.loads(json.dumps(settings))


def content_digest(header: dict[str, str], state: Any, rng: Any) -> str:
    """The digest of the header and the arrays, by which changes of a file are detected."""
    digest = sha256(json.dumps(header, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(state).tobytes())
    digest.update(np.ascontiguousarray(rng).tobytes())
    return digest.hexdigest()
