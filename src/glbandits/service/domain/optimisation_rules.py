"""Auto-optimisation: candidates, schedule, and records of the results.

Candidates are policies that are compared with the running policy. A look is one comparison on the log of a loop. It
promotes a candidate, keeps the running policy, or waits for more data.
"""

from datetime import UTC
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from glbandits.common.errors import InvalidInput
from glbandits.maths.links import find_link
from glbandits.policies.parsing import split_policy
from glbandits.service.domain.loop_config import SECOND, LoopConfig, model_size
from glbandits.service.domain.model_snapshots import check_exact
from glbandits.service.domain.policy_arguments import parse_arguments

OPTIMISATION = "optimisation"
"""The kind of the documents in the store. There is a version for each look."""
MAX_CANDIDATES = 10
HALF_LIVES, EXPLORATION_FACTORS = (10_000, 100_000), (0.3, 3.0)
"""Default candidates: half-lives, and factors of the exploration, of the running policy if it has these settings."""
RIVALS, LARGEST_RIVAL = ("optimist", "sgd-ts", "online-laplace"), 1_000_000
"""Default candidates: the first two of these policies that are not the running one. A rival with a larger model, in
numbers, is left out, because a look would take hours."""
SPARSE_RIVALS = ("optimist", "sgd-ts:block_length=100", "epsilon-greedy:fit=online")
"""The same for a sparse loop."""


class LookVerdict(StrEnum):
    """The result of a look."""

    PROMOTE = "promote"
    """A candidate is better than the running policy and replaces it."""
    KEEP = "keep"
    """No candidate is better."""
    WAIT = "wait"
    """The log does not have enough data yet."""
    FAILED = "failed"


class Gain(msgspec.Struct, frozen=True):
    """The mean reward of a candidate minus that of the running policy, with an interval."""

    value: float
    low: float
    high: float


class Gate(msgspec.Struct, frozen=True):
    """A series of looks that compare the same policies on the same part of the log."""

    index: int
    """The number of earlier gates of the loop, each of which has used a part of alpha."""
    since: int
    """Timestamp from which decisions count."""
    first: int
    """Sequence number of the oldest of these decisions. If it is deleted from the log, a new gate starts."""
    compared: str
    """The compared policies, as JSON."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a look."""

    verdict: LookVerdict
    sentence: str
    gains: dict[str, Gain] = {}
    """By candidate. The intervals hold at all looks at once."""
    decisions: int = 0
    """Decisions that were compared or learned."""
    gate: Gate | None = None


class OptimisationResult(NamedTuple):
    """The record of a look, and the configuration and the model of a promoted candidate."""

    look: Look
    configuration: LoopConfig | None = None
    model: bytes = b""
    """A model that has learned the log of the loop, for `Bandit.from_bytes`."""


def candidates_of(configuration: LoopConfig) -> dict[str, LoopConfig]:
    """Return the configuration of the loop with each candidate, without the running policy.

    Raises InvalidInput.
    """
    if len(configuration.candidates) > MAX_CANDIDATES:
        raise InvalidInput(
            f"candidates must be at most {MAX_CANDIDATES}, got {len(configuration.candidates)}: with each candidate "
            "the others need more data. Name fewer."
        )
    link = find_link(configuration.build_policy().link).name
    named = {text: parse_arguments(text, link) for text in configuration.candidates}
    candidates = {
        text: replace(configuration, policy=policy, settings=settings)
        for text, (policy, settings) in (named or default_candidates(configuration)).items()
    }
    for text in named:
        check_exact(candidates[text])
        limits = candidates[text].reward_limits()
        if limits != configuration.reward_limits():
            raise InvalidInput(
                f"candidate {text!r} learns rewards within {limits}, the running policy within "
                f"{configuration.reward_limits()}. Name a candidate with the same link."
            )
    running = configuration.build_policy()
    return {text: candidate for text, candidate in candidates.items() if candidate.build_policy() != running}


def default_candidates(configuration: LoopConfig) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the default candidates: variants of the running policy, and two other policies.

    The values are the names and the settings of the policies.

    >>> list(default_candidates(LoopConfig()))
    ['optimist:half_life=10000', 'optimist:half_life=100000', 'sgd-ts', 'online-laplace']
    """
    policy, settings = configuration.policy, configuration.settings
    link = find_link(configuration.build_policy().link).name
    changed = [("half_life", value) for value in HALF_LIVES if "half_life" in settings]
    if settings.get("exploration") is not None:
        changed += [("exploration", factor * settings["exploration"]) for factor in EXPLORATION_FACTORS]
    variants = {f"{policy}:{name}={value}": (policy, settings | {name: value}) for name, value in changed}
    texts = SPARSE_RIVALS if configuration.is_sparse else RIVALS
    rivals = {
        text: parse_arguments(text, link) for text in [text for text in texts if split_policy(text).name != policy][:2]
    }
    if not configuration.is_sparse:
        rivals = {name: rival for name, rival in rivals.items() if _size(rival, configuration.width) <= LARGEST_RIVAL}
    return variants | rivals


def _size(policy: tuple[str, dict[str, Any]], width: int) -> int:
    return model_size(policy[0], msgspec.json.encode(policy[1]).decode(), width)


def check_optimisable(configuration: LoopConfig) -> None:
    """Raise InvalidInput if auto-optimisation is on and cannot work with this configuration."""
    if not configuration.auto_optimisation:
        return
    if configuration.reward_limits() is None:
        raise InvalidInput(
            "auto_optimisation needs limits of the rewards, and this loop has none. Set reward_range, for example to "
            "[0, 1]."
        )
    candidates_of(configuration)


def next_look(configuration: LoopConfig, last: int | None) -> int | None:
    """Return the timestamp of the next look, given the last; None without auto-optimisation."""
    if not configuration.auto_optimisation:
        return None
    start, every = configuration.optimisation_start, round(configuration.optimisation_frequency * SECOND)
    if start is None:
        return 0 if last is None else last + every
    first = round((start if start.tzinfo else start.replace(tzinfo=UTC)).timestamp() * SECOND)
    return first if last is None or last < first else first + every * ((last - first) // every + 1)
