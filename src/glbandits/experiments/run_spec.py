"""The key of a run: a hash of all that made it, so that no run is computed twice and none is mistaken for another."""

import ast
import json
import sys
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import NamedTuple, cast

from glbandits.code_digest import digest_of_code
from glbandits.environments import Environment, Noise
from glbandits.errors import InvalidInput
from glbandits.maths.links import find_link
from glbandits.policy import Policy, settings_of
from glbandits.simulation import simulate
from glbandits.version import __version__


class ProblemKey(NamedTuple):
    """What tells a problem from all others."""

    fingerprint: str
    noise: str

    @classmethod
    def of(cls, environment: Environment) -> "ProblemKey":
        """Compute the key; for data files this reads them."""
        return cls(fingerprint(environment), noise_digest(environment.noise))


@dataclass(frozen=True)
class RunSpec:
    """One policy, one problem, one seed."""

    policy: Policy
    environment: Environment
    horizon: int
    seed: int
    luck: int = 0
    """0 for the noise of the problem, the same for all policies; another number for noise of the run's own."""
    known_problem: ProblemKey | None = None
    """The key of the problem, for who makes many specs of one problem; None computes it."""

    @cached_property
    def problem(self) -> ProblemKey:
        """The key of the problem."""
        return self.known_problem or ProblemKey.of(self.environment)

    @cached_property
    def key(self) -> str:
        """Equal for two runs exactly if they play alike.

        Settings count as compiled code sees them: two policies whose numbers and first states are equal make the same
        choices, whatever words their users wrote.
        """
        digest = sha256()
        for text in (
            settings_digest(self.policy, self.environment.dim),
            *self.problem,
            f"{self.horizon},{self.seed},{self.luck}",
            __version__,
            self.code,
        ):
            digest.update(text.encode() + b"\n")
        return digest.hexdigest()[:32]

    @property
    def code(self) -> str:
        """A hash of the code that plays this run."""
        return source_digest(type(self.policy).__module__, type(self.environment).__module__, simulate.__module__)

    def with_own_noise(self) -> "RunSpec":
        """The same with noise of its own: other settings have other noise, the same settings always the same."""
        luck = 1 + int(settings_digest(self.policy, self.environment.dim)[:7], 16)
        return replace(self, luck=luck)

    def settings(self) -> str:
        """The policy's settings as JSON."""
        return json.dumps(settings_of(self.policy))


@lru_cache(maxsize=100_000)
def settings_digest(policy: Policy, dim: int) -> str:
    """A hash of a policy as compiled code sees it."""
    digest = sha256(f"{policy.name}\n{type(policy).__qualname__}\n{find_link(policy.link).name}\n".encode())
    for array in (policy.packed_settings(dim), policy.init(dim)):
        digest.update(array.tobytes() + b"\n")
    return digest.hexdigest()[:32]


def fingerprint(environment: Environment) -> str:
    """What tells this problem from all others: what its own method of this name says, or else how it prints."""
    own = getattr(environment, "fingerprint", None)
    text = str(own()) if callable(own) else repr(environment)
    if " at 0x" in text:
        raise InvalidInput(
            f"an environment must print as what it is, or have a fingerprint() that says so; got {text}. "
            "Make it a dataclass, or add that method"
        )
    return text


def noise_digest(noise: Noise) -> str:
    """What tells this noise from all others, its parameters included: they are constants of its functions."""
    return " ".join(digest_of_code(cast(FunctionType, part)).value for part in (noise.draw, noise.reward))


@cache
def source_digest(*roots: str) -> str:
    """A hash of the source of these modules and of all that they import from their own packages.

    Results of other code are not taken for this code's. The modules are found by reading import statements, so nobody
    keeps a list of them.
    """
    packages, waiting, sources = {root.split(".")[0] for root in roots}, list(roots), dict[str, bytes]()
    while waiting:
        name = waiting.pop()
        if name not in sources and name.split(".")[0] in packages:
            source, imported = _source_and_imports(name)
            if source is not None:
                sources[name] = source
                waiting += imported
    digest = sha256()
    for name in sorted(sources):
        digest.update(name.encode() + b"\0" + sources[name])
    return digest.hexdigest()[:16]


@cache
def _source_and_imports(name: str) -> tuple[bytes | None, tuple[str, ...]]:
    """The source of a loaded module, and every name that it imports; None for what is no module with a file."""
    origin = getattr(sys.modules.get(name), "__file__", None)
    if origin is None:
        return None, ()
    source = Path(origin).read_bytes()
    imported: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            imported += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return source, tuple(imported)
