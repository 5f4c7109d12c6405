"""Auto-optimisation: what is compared with the running policy, when, and what came of it."""

from datetime import UTC
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from glbandits.errors import InvalidInput
from glbandits.maths.links import find_link
from glbandits.policy_parsing import split_policy
from glbandits.serving.domain.loop_config import SECOND, LoopConfig, model_size
from glbandits.serving.domain.model_snapshots import check_exact
from glbandits.serving.domain.policy_arguments import parse_arguments

OPTIMISATION = "optimisation"
"""The kind of the documents, one for each look."""
MOST_CANDIDATES = 10
HALF_LIVES, EXPLORATION_FACTORS = (10_000, 100_000), (0.3, 3.0)
"""Settings of the running policy that are tried by default, as far as it has them."""
RIVALS, LARGEST_RIVAL = ("optimist", "sgd-ts", "online-laplace"), 1_000_000
"""Of these, the first two other policies than the running one are tried by default. A rival whose model has more
numbers is left out: it would take hours."""
SPARSE_RIVALS = ("optimist", "sgd-ts:block_length=100", "epsilon-greedy:fit=online")
"""The same of a sparse loop."""


class LookVerdict(StrEnum):
    """What came of a look."""

    PROMOTE = "promote"
    """A candidate is better than the running policy, and has replaced it."""
    KEEP = "keep"
    """No candidate is better."""
    WAIT = "wait"
    """The log does not tell yet."""
    FAILED = "failed"


class Gain(msgspec.Struct, frozen=True):
    """How much more a candidate would earn for a decision than the running policy, with an interval."""

    value: float
    low: float
    high: float


class Gate(msgspec.Struct, frozen=True):
    """A series of looks that compare the same candidates with the same running policy, from a row of the log on."""

    index: int
    """How many gates of the loop have spent alpha before."""
    since: int
    """Timestamp from which decisions count."""
    first: int
    """Sequence number of the oldest of them in the log. If it is deleted, another gate begins."""
    compared: str
    """What is compared, as JSON."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a look at the log."""

    verdict: LookVerdict
    sentence: str
    gains: dict[str, Gain] = {}
    """Of each candidate. The intervals hold at every look at once."""
    decisions: int = 0
    """Decisions that were compared or learned."""
    gate: Gate | None = None


class Optimised(NamedTuple):
    """A look, and what to run if the verdict is to promote a candidate."""

    look: Look
    configuration: LoopConfig | None = None
    model: bytes = b""
    """Has learned the log of the loop, see `Bandit.from_bytes`."""


def candidates_of(configuration: LoopConfig) -> dict[str, LoopConfig]:
    """The configuration of the loop with each candidate, without the running policy. Raises InvalidInput."""
    if len(configuration.candidates) > MOST_CANDIDATES:
        raise InvalidInput(
            f"candidates must be at most {MOST_CANDIDATES}, got {len(configuration.candidates)}: each makes the others "
            "wait longer for an answer. Name fewer."
        )
    link = find_link(configuration.policy_settings().link).name
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
    running = configuration.policy_settings()
    return {text: candidate for text, candidate in candidates.items() if candidate.policy_settings() != running}


def default_candidates(configuration: LoopConfig) -> dict[str, tuple[str, dict[str, Any]]]:
    """The running policy with other settings, and two other policies: their names and settings.

    >>> list(default_candidates(LoopConfig()))
    ['optimist:half_life=10000', 'optimist:half_life=100000', 'sgd-ts', 'online-laplace']
    """
    policy, settings = configuration.policy, configuration.settings
    link = find_link(configuration.policy_settings().link).name
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
    """The timestamp at which the next look is due, after one at `last`; None without auto-optimisation."""
    if not configuration.auto_optimisation:
        return None
    start, every = configuration.optimisation_start, round(configuration.optimisation_frequency * SECOND)
    if start is None:
        return 0 if last is None else last + every
    first = round((start if start.tzinfo else start.replace(tzinfo=UTC)).timestamp() * SECOND)
    return first if last is None or last < first else first + every * ((last - first) // every + 1)
