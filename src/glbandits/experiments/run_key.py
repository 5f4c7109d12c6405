"""The key of a run: a hash of all that made it, so that no run is computed twice and none is mistaken for another."""

import json
from dataclasses import dataclass, replace
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path

import glbandits
from glbandits.policy import Policy, settings_of
from glbandits.environments import Environment
from glbandits.errors import InvalidInput
from glbandits.maths.links import find_link
from glbandits.version import __version__

CODE = ("compiled.py", "contract.py", "records.py", "maths", "estimators", "policies", "environments", "simulation")
"""What of the package decides how a run goes."""


@dataclass(frozen=True)
class RunSpec:
    """One policy, one problem, one seed."""

    policy: Policy
    environment: Environment
    horizon: int
    seed: int
    luck: int = 0
    """0 for the noise of the problem, the same for all policies; another number for noise of the run's own."""

    @cached_property
    def key(self) -> str:
        """Equal for two runs exactly if they play alike.

        Settings count as compiled code sees them: two policies whose numbers and first states are equal make the same
        choices, whatever words their users wrote.
        """
        digest = sha256()
        for text in (
            settings_digest(self.policy, self.environment.dim),
            fingerprint(self.environment),
            f"{self.horizon},{self.seed},{self.luck}",
            __version__,
            code_digest(),
        ):
            digest.update(text.encode() + b"\n")
        return digest.hexdigest()[:32]

    def with_own_luck(self) -> "RunSpec":
        """The same with noise of its own: other settings have other noise, the same settings always the same."""
        luck = 1 + int(settings_digest(self.policy, self.environment.dim)[:7], 16)
        return replace(self, luck=luck)

    def settings(self) -> str:
        """The policy's settings as JSON."""
        return json.dumps(settings_of(self.policy))


def settings_digest(policy: Policy, dim: int) -> str:
    """A hash of a policy as compiled code sees it."""
    digest = sha256(f"{policy.name}\n{type(policy).__qualname__}\n{find_link(policy.link).name}\n".encode())
    for array in (policy.numbers(dim), policy.init(dim)):
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


@cache
def code_digest() -> str:
    """A hash of the code that plays: results of other code are not taken for this one's."""
    root, digest = Path(glbandits.__file__).parent, sha256()
    for name in CODE:
        for path in sorted((root / name).rglob("*.py")) if (root / name).is_dir() else [root / name]:
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]
