"""What a loop can be told: how long it waits for rewards, how it counts them, how much it explores, what decides."""

import math
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from glbandits.errors import MAX_ABS, InvalidInput, check_float, check_int, lookup, parameter
from glbandits.maths.links import find_link
from glbandits.policies import POLICIES, Optimist, Policy
from glbandits.policy import rebuild, settings_of
from glbandits.serving.domain.events import Aggregation, Mode
from glbandits.sparse_policies import sparse_form

SECOND = 1_000_000
"""In microseconds, which is how times are kept."""
LARGEST_MODEL = 40_000_000
"""Numbers of a model, 320 MB: it is copied for every one that is published, and kept in the store."""
LARGEST_SPARSE_MODEL = 2**23 + 1000
"""Numbers of a sparse model, 67 MB: room for 2**19 features of optimist, and for twice as many of epsilon-greedy.
Clients may send ever new features, so a model that is as large learns no others."""
DENSE_WIDTH, LARGEST_DENSE_WIDTH, LARGEST_WIDTH = 4096, 1_000_000, 2**24
"""The largest width of a loop that is dense unless it says so, of any dense loop, and of a sparse one. Above the first
a sparse model decides faster with every policy that has one."""
HOUR, DAY = 60 * 60, 24 * 60 * 60
"""In seconds."""


class LoopConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a loop. Each change is kept, and a decision is learned by those under which it was made.

    But for a shorter wait: it holds for decisions too that wait already.
    """

    reward_wait: float = 600.0
    """Seconds that rewards are waited for."""
    default_reward: float = 0.0
    """What a decision without a reward counts."""
    aggregation: Aggregation = Aggregation.EARLIEST
    reward_range: tuple[float, float] | None = None
    """The smallest and the largest reward that is accepted for decisions made from now on. None: all that the link of
    the policy accepts; [-1, 1] for events ranked through the Personalizer API."""
    exploration: float = 0.2
    """The share of decisions that are random, so that no allowed action has less than exploration / actions."""
    mode: Mode = Mode.ONLINE
    model_update: float = 1.0
    """Seconds between two models."""
    retention_days: int = -1
    """Days that the log is kept; -1 forever."""
    width: int = 256
    """Numbers into which the features of an action are hashed; the features themselves for dense actions."""
    sparse: bool | None = None
    """Whether the model is sparse: time and memory then depend on the features that are set, not on the width, which
    may be 16,777,216. None: if the width is above 4,096."""
    policy: str = "optimist"
    settings: dict[str, Any] = msgspec.field(default_factory=lambda: settings_of(Optimist(link="identity")))
    """Of the policy."""
    auto_optimisation: bool = False
    """Whether the loop looks from time to time if another policy would be better, and then runs that one."""
    optimisation_frequency: float = 7.0 * DAY
    """Seconds between two looks."""
    optimisation_start: datetime | None = None
    """When the first look is due; in UTC if it has no zone. None: at once."""
    candidates: tuple[str, ...] = ()
    """Policies that are compared with the running one, as texts; see `policy_arguments`. Without any, there are
    defaults: see `optimisation.default_candidates`."""

    def __post_init__(self) -> None:
        check_float("reward_wait", self.reward_wait, at_least=0, at_most=60 * DAY)
        check_float("default_reward", self.default_reward, at_least=-1, at_most=1)
        check_float("exploration", self.exploration, at_least=0, at_most=1)
        check_float("model_update", self.model_update, at_least=0, at_most=DAY)
        check_float("optimisation_frequency", self.optimisation_frequency, at_least=HOUR, at_most=366 * DAY)
        self._check_reward_range()
        check_int("width", self.width, at_least=1, at_most=LARGEST_WIDTH)
        if self.retention_days != -1:
            check_int("retention_days", self.retention_days, at_least=1, at_most=100_000)
        policy = self.policy_settings()
        self._check_sparse(policy) if self.is_sparse else self._check_size()

    def _check_reward_range(self) -> None:
        if self.reward_range is None:
            return
        lowest, highest = (check_float("reward_range", bound, at_least=-MAX_ABS) for bound in self.reward_range)
        if not lowest < highest:
            raise InvalidInput(
                f"{parameter('reward_range')} must go from a smaller to a larger number; got {self.reward_range}"
            )
        if not lowest <= self.default_reward <= highest:
            raise InvalidInput(
                f"{parameter('default_reward')} must be in {parameter('reward_range')} {self.reward_range}; "
                f"got {self.default_reward}"
            )

    @property
    def is_sparse(self) -> bool:
        """Whether the model is sparse."""
        return self.width > DENSE_WIDTH if self.sparse is None else self.sparse

    def _check_sparse(self, policy: Policy) -> None:
        try:
            size = sparse_form(policy, self.width).init(self.width).size
        except InvalidInput as error:
            why, other = f"above a width of {DENSE_WIDTH:,}", f"a width of at most {DENSE_WIDTH:,}"
            if self.sparse is not None:
                why, other = "with sparse=true", "sparse=false"
            raise InvalidInput(f"a loop is sparse {why}. Set {other}, or change the policy: {error.template}") from None
        except MemoryError:
            size = LARGEST_SPARSE_MODEL + 1
        if size > LARGEST_SPARSE_MODEL:
            raise InvalidInput(
                f"a sparse model may have {LARGEST_SPARSE_MODEL:,} numbers, and {self.policy} with these settings has "
                "more before its first reward. Take optimist"
            )

    def _check_size(self) -> None:
        if self.width > LARGEST_DENSE_WIDTH:
            raise InvalidInput(
                f"{parameter('width')} must be at most {LARGEST_DENSE_WIDTH:,} with sparse=false; "
                f"got {self.width:,}. Leave sparse out"
            )
        try:
            settings = msgspec.json.encode(self.settings).decode()
            fits = model_size(self.policy, settings, self.width) <= LARGEST_MODEL
        except MemoryError:
            fits = False
        if not fits:
            raise InvalidInput(
                f"a model of {self.policy} may have {LARGEST_MODEL:,} numbers, and has more with these settings and a "
                f"width of {self.width:,}. Take a smaller width, or optimist"
            )

    @property
    def reward_window(self) -> int:
        """Microseconds after a decision for which rewards are accepted."""
        return round(self.reward_wait * SECOND)

    def reward_limits(self) -> tuple[float, float] | None:
        """The smallest and the largest reward that is learned; None if there is none."""
        link = find_link(self.policy_settings().link)
        lowest, highest = self.reward_range or (link.lowest_reward, link.highest_reward)
        limits = max(lowest, link.lowest_reward), min(highest, link.highest_reward)
        return limits if math.isfinite(limits[1] - limits[0]) and limits[0] < limits[1] else None

    def policy_settings(self) -> Policy:
        """The policy itself."""
        kind = lookup("policy", self.policy, POLICIES)
        try:
            policy = rebuild(kind, self.settings)
        except TypeError as error:
            raise InvalidInput(f"the settings of {self.policy} cannot be {self.settings}: {error}") from None
        if policy.keeps_history:
            raise InvalidInput(f"{self.policy} keeps all that it learned, which a service cannot; use optimist")
        return policy


@lru_cache(maxsize=64)  # a configuration is read again every second
def model_size(policy: str, settings: str, width: int) -> int:
    """Numbers of the model of a policy with settings in JSON; of a narrower one if that is too large already.

    Only making a model tells its size. The widths that are tried double, so that none is made that is far too large.
    """
    made = rebuild(POLICIES[policy], msgspec.json.decode(settings))
    narrower = (2**power for power in range(width.bit_length() - 1))
    size = 0
    for tried in (*narrower, width):
        size = made.init(tried).size
        if size > LARGEST_MODEL:
            break
    return size
