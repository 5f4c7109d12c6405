"""The specification of a run, and its key: a hash of all that determines its result.

The result store finds runs by this key, so that no run is repeated and none is confused with another.
"""

import ast
import json
import sys
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, lru_cache
from hashlib import sha256
from pathlib import Path

from glbandits.common.identity import identity_of
from glbandits.common.version import __version__
from glbandits.lab import environments
from glbandits.lab.environments import Environment
from glbandits.lab.environments.rounds import check_environment, check_is_repeatable, checked_rounds
from glbandits.lab.simulation import simulate
from glbandits.lab.simulation.agent_player import AgentPlayer
from glbandits.lab.simulation.play_recipes import play_entry
from glbandits.maths.links import PACKED, find_link
from glbandits.policies.agents import AgentFactory, PolicyOrAgent, settings_values
from glbandits.policies.contract import Policy


@dataclass(frozen=True)
class IdentifiedProblem:
    """An environment with its identity, as it was when a comparison began."""

    environment: Environment
    identity: str

    @classmethod
    def of(cls, environment: Environment, horizon: int, seed: int) -> "IdentifiedProblem":
        """Identify an environment by its content, its code and its noise; one of a user also by its first rounds.

        Rounds may depend on more than the content of an object, such as on a file. Raises InvalidInput if the
        environment cannot be identified, or generates different rounds for the same seed.
        """
        check_environment(environment)
        name = f"the environment {type(environment).__name__}"
        parts = [identity_of(environment, name), identity_of(environment.noise, f"the noise of {name}")]
        check_is_repeatable(environment, horizon, seed)
        if not is_built_in(environment):
            chunk = next(checked_rounds(environment, horizon, seed))
            parts.append(identity_of([getattr(chunk, field.name) for field in fields(chunk)]))
        return cls(environment, "-".join(parts))

    @property
    def text(self) -> str:
        """What the result store says about the problem: its repr or, if that differs from run to run, its class."""
        text = repr(self.environment)
        return type(self.environment).__qualname__ if " at 0x" in text else text


def is_built_in(environment: Environment) -> bool:
    """Return whether an environment, and the one inside it if there is one, are of this package."""
    parts = environment, getattr(environment, "environment", environment)
    return all(_is_ours(type(part)) for part in parts)


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == __name__.partition(".")[0]


@dataclass(frozen=True)
class RunSpec:
    """One policy, one problem, one seed."""

    policy: PolicyOrAgent
    problem: IdentifiedProblem
    horizon: int
    seed: int
    noise_seed: int = 0
    """0 for the noise of the problem, which all policies share; any other number for noise of this run only."""

    @property
    def environment(self) -> Environment:
        """The environment of the problem."""
        return self.problem.environment

    @cached_property
    def key(self) -> str:
        """Hash of the run. Runs with equal keys have equal results.

        For a policy the hash covers the packed settings and the initial state, as compiled code receives them. So two
        spellings of the same settings have the same key. For an agent it covers its code and its settings.
        """
        digest = sha256()
        for text in (
            settings_digest(self.policy, self.environment.dim),
            self.problem.identity,
            f"{self.horizon},{self.seed},{self.noise_seed}",
            __version__,
            self.code,
        ):
            digest.update(text.encode() + b"\n")
        return digest.hexdigest()[:32]

    @property
    def code(self) -> str:
        """Hash of the code that plays this run. Code of a user's environment is part of the problem's identity."""
        inner = getattr(self.environment, "environment", self.environment)  # the problem inside `WithPayoffs`
        kinds = [kind for kind in (type(self.environment), type(inner)) if _is_ours(kind)]
        of_problem = {kind.__module__ for kind in kinds} or {environments.__name__}
        player = [AgentPlayer.__module__] if isinstance(self.policy, AgentFactory) else []
        return playing_digest(type(self.policy).__module__, *player, *sorted(of_problem))

    def with_own_noise(self) -> "RunSpec":
        """Return the run with its own noise, which is determined by the policy's settings."""
        noise_seed = 1 + int(settings_digest(self.policy, self.environment.dim)[:7], 16)
        return replace(self, noise_seed=noise_seed)

    def settings(self) -> str:
        """Return the policy's settings as JSON."""
        return json.dumps(settings_values(self.policy))


def settings_digest(policy: PolicyOrAgent, dim: int) -> str:
    """Return a hash of a policy's packed settings and initial state; of agents, their identity.

    The identity of agents is not cached here: a class, a global variable or a list among the settings may change.
    """
    return policy.identity if isinstance(policy, AgentFactory) else _policy_digest(policy, dim)


def forget_digests() -> None:
    """Compute the digests of policies anew: the code of a user's policy may have changed since the last comparison."""
    _policy_digest.cache_clear()


@lru_cache(maxsize=100_000)
def _policy_digest(policy: Policy, dim: int) -> str:
    kind = type(policy)
    digest = sha256(f"{policy.name}\n{kind.__qualname__}\n{find_link(policy.link).name}\n".encode())
    if not _is_ours(kind):  # a class of a notebook has no source file, which `playing_digest` needs
        digest.update(identity_of(kind, f"the policy {policy.name}").encode())
    for array in (policy.packed_settings(dim)[PACKED:], policy.init(dim)):  # the link has its name above
        digest.update(array.tobytes() + b"\n")
    return digest.hexdigest()[:32]


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
