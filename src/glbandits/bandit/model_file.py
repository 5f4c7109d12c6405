"""Model files: safetensors with the settings beside the arrays. Never pickle."""

import json
import os
from hashlib import sha256
from os import PathLike
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from glbandits.errors import GlbanditsError, ModelFileError, unknown_name
from glbandits.policies import POLICIES, Policy, rebuild, settings_of
from glbandits.records import Floats, Generator

FORMAT = "glbandits-model"
FORMAT_VERSION = 1


def write_model(path: str | PathLike[str], policy: Policy, dim: int, state: Floats, rng: Generator) -> None:
    """Write to a temporary file beside `path`, then put it in place: a reader never sees half a model."""
    header = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "policy": policy.name,
        "settings": json.dumps(settings_of(policy), sort_keys=True),
        "dim": str(dim),
    }
    header["digest"] = _digest(header, state, rng)
    content = save({"state": state, "generator": rng}, metadata=header)
    target = Path(path)
    with NamedTemporaryFile(dir=target.parent, prefix=target.name, suffix=".tmp", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(target)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def read_model(path: str | PathLike[str], given: Policy | None) -> tuple[Policy, int, Floats, Generator]:
    """Policy, dimension, state and generator; a ModelFileError says why a file is refused."""
    header, arrays = _open(path)
    if header.get("format") != FORMAT:
        raise ModelFileError(f"{path} is a safetensors file, but not one that Bandit.save wrote")
    version = header.get("format_version", "")
    if not version.isdecimal() or int(version) > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has model format {version!r}; this version of glbandits reads up to {FORMAT_VERSION}. "
            "Upgrade glbandits to load it"
        )
    digest = header.pop("digest", "")
    state, rng = arrays.get("state"), arrays.get("generator")
    if state is None or rng is None or digest != _digest(header, state, rng):
        raise ModelFileError(f"{path} was changed or damaged after it was saved; load another copy")
    policy, dim = _policy(path, header, given), int(header["dim"])
    if state.dtype != np.float64 or rng.dtype != np.uint64 or rng.shape != (3,) or not policy.fits(state, dim):
        raise ModelFileError(f"{path} holds a state that {policy.name} with these settings cannot have made")
    return policy, dim, state, rng


def _open(path: str | PathLike[str]) -> tuple[dict[str, str], dict[str, Any]]:
    if not Path(path).is_file():
        raise ModelFileError(f"there is no file {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            return dict(file.metadata() or {}), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"{path} is not a whole safetensors file ({error}); load another copy") from None


def _policy(path: str | PathLike[str], header: dict[str, str], given: Policy | None) -> Policy:
    settings = json.loads(header["settings"])
    if given is not None:
        if given.name != header["policy"] or _plain(settings_of(given)) != settings:
            raise ModelFileError(
                f"{path} was saved with {header['policy']} {settings}; got {given.name} "
                f"{settings_of(given)}. Pass the same settings, or none"
            )
        return given
    if header["policy"] not in POLICIES:
        hint = unknown_name("policy", header["policy"], POLICIES)
        raise ModelFileError(f"{path}: {hint}. For a policy of your own, pass it: Bandit.load(path, policy=...)")
    try:
        return rebuild(POLICIES[header["policy"]], settings)
    except (GlbanditsError, TypeError, KeyError) as error:
        raise ModelFileError(
            f"{path}: its settings cannot be used here ({error}). For a link of your own, pass the policy with it: "
            "Bandit.load(path, policy=...)"
        ) from None


def _plain(settings: dict[str, Any]) -> Any:
    return json.loads(json.dumps(settings))


def _digest(header: dict[str, str], state: Any, rng: Any) -> str:
    digest = sha256(json.dumps(header, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(state).tobytes())
    digest.update(np.ascontiguousarray(rng).tobytes())
    return digest.hexdigest()
