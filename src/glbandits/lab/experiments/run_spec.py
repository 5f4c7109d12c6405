"""The specification of a run, and its key: a hash of all that determines its result.

The result store finds runs by this key, so that no run is repeated and none is confused with another.
"""

import ast
import json
import sys
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import cast

from glbandits.common.errors import InvalidInput
from glbandits.common.version import __version__
from glbandits.compilation.code_digest import digest_of_code
from glbandits.lab.environments import Environment, Noise
from glbandits.lab.simulation import simulate
from glbandits.lab.simulation.play_recipes import play_entry
from glbandits.maths.links import find_link
from glbandits.policies.contract import Policy, settings_of


@dataclass(frozen=True)
class RunSpec:
    """One policy, one problem, one seed."""

    policy: Policy
    environment: Environment
    horizon: int
    seed: int
    noise_seed: int = 0
    """0 for the noise of the problem, which all policies share; any other number for noise of this run only."""

    @cached_property
    def problem(self) -> str:
        """The identity of the problem. This reads the data files of the environment, if it has any."""
        return fingerprint(self.environment)

    @cached_property
    def key(self) -> str:
        """Hash of the run. Runs with equal keys have equal results.

        The hash covers the packed settings and the initial state, as compiled code receives them. So two spellings of
        the same settings have the same key.
        """
        digest = sha256()
        for text in (
            settings_digest(self.policy, self.environment.dim),
            self.problem,
            noise_digest(self.environment.noise),
            f"{self.horizon},{self.seed},{self.noise_seed}",
            __version__,
            self.code,
        ):
            digest.update(text.encode() + b"\n")
        return digest.hexdigest()[:32]

    @property
    def code(self) -> str:
        """Hash of the code that plays this run."""
        inner = getattr(self.environment, "environment", self.environment)  # the problem inside `WithPayoffs`
        return playing_digest(*(type(part).__module__ for part in (self.policy, self.environment, inner)))

    def with_own_noise(self) -> "RunSpec":
        """Return the run with its own noise, which is determined by the policy's settings."""
        noise_seed = 1 + int(settings_digest(self.policy, self.environment.dim)[:7], 16)
        return replace(self, noise_seed=noise_seed)

    def settings(self) -> str:
        """Return the policy's settings as JSON."""
        return json.dumps(settings_of(self.policy))


@lru_cache(maxsize=100_000)
def settings_digest(policy: Policy, dim: int) -> str:
    """Return a hash of a policy's packed settings and initial state."""
    digest = sha256(f"{policy.name}\n{type(policy).__qualname__}\n{find_link(policy.link).name}\n".encode())
    for array in (policy.packed_settings(dim), policy.init(dim)):
        digest.update(array.tobytes() + b"\n")
    return digest.hexdigest()[:32]


def fingerprint(environment: Environment) -> str:
    """Return the identity of a problem: `environment.fingerprint()`, or else its repr."""
    method = getattr(environment, "fingerprint", None)
    text = str(method()) if callable(method) else repr(environment)
    if " at 0x" in text:
        raise InvalidInput(
            f"an environment needs a repr that identifies it, or a method fingerprint(); got {text}. "
            "Make it a dataclass, or add that method"
        )
    return text


@cache
def noise_digest(noise: Noise) -> str:
    """Return a hash of the noise functions, including the parameters that they close over."""
    return " ".join(digest_of_code(cast(FunctionType, part)).value for part in (noise.draw, noise.reward))


def playing_digest(*roots: str) -> str:
    """Return a hash of the code that plays runs with these modules.

    It covers `simulate` itself, but of its imports only the compiled loop. The other imports include all sparse
    policies, and each of their changes would invalidate all results.
    """
    own_source, _ = _source_and_imports(simulate.__module__)
    assert own_source is not None
    return sha256(source_digest(*roots, play_entry.__module__).encode() + own_source).hexdigest()[:16]


@cache
def source_digest(*roots: str) -> str:
    """Return a hash of the source of modules and of what they import from their packages.

    A change of any of them changes the hash, so that old results are not reused. The imported modules are found by
    parsing import statements.
    """
    packages, pending, sources = {root.split(".")[0] for root in roots}, list(roots), dict[str, bytes]()
    while pending:
        name = pending.pop()
        if name not in sources and name.split(".")[0] in packages:
            source, imported = _source_and_imports(name)
            if source is not None:
                sources[name] = source
                pending += imported
    digest = sha256()
    for name in sorted(sources):
        digest.update(name.encode() + b"\0" + sources[name])
    return digest.hexdigest()[:16]


@cache
def _source_and_imports(name: str) -> tuple[bytes | None, tuple[str, ...]]:
    """Return the source of a loaded module, None if it has no file, and its imports."""
    module = sys.modules.get(name)
    origin = getattr(module, "__file__", None)
    if origin is None:
        return None, ()
    source, packages = Path(origin).read_bytes(), (getattr(module, "__package__", None) or "").split(".")
    imported: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = packages[: len(packages) + 1 - node.level] if node.level else []  # of a relative import
            base = ".".join([*above, *([node.module] if node.module else [])])
            imported += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return source, tuple(imported)
