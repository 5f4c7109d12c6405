"""The configuration of a loop: reward window, aggregation, exploration, policy and others."""

import math
import re
from functools import lru_cache
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from glbandits.common.errors import MAX_ABS, InvalidInput, check_float, check_int, lookup
from glbandits.maths.links import find_link
from glbandits.policies import POLICIES, Optimist, Policy
from glbandits.policies.contract import rebuild, settings_of
from glbandits.policies.sparse_forms import sparse_form
from glbandits.service.domain.durations import LONGEST_WINDOW, parse_duration
from glbandits.service.domain.events import Aggregation, Mode
from glbandits.service.domain.groups.experiment import REWARD, Control, GuardrailAction, MetricSettings, check_metrics
from glbandits.service.domain.variants import Variant, check_variants

SECOND = 1_000_000
"""In microseconds, the unit of timestamps."""
LARGEST_MODEL = 40_000_000
"""The largest number of float64 values in a dense model, 320 MB. The model is copied for each update and stored."""
LARGEST_SPARSE_MODEL = 2**23 + 1000
"""The largest number of float64 values in a sparse model, 67 MB: room for 2**19 features with optimist, and for twice
as many with epsilon-greedy. Clients may send ever new features, so a model of this size learns no new ones."""
DENSE_WIDTH, LARGEST_DENSE_WIDTH, LARGEST_WIDTH = 4096, 1_000_000, 2**24
"""The largest width of a loop that is dense by default, of any dense loop, and of a sparse loop. Above the first, a
sparse model decides faster with every policy that has a sparse form."""
LIMITS_OUTLIERS = frozenset({"optimist", "uniform"})
"""Policies that bear a feature or a reward far outside everything seen. Each of the others makes bad decisions for
thousands of rewards after one of them."""
DAY = 24 * 60 * 60
"""In seconds."""
SECONDS, WHOLE = {"unit": "seconds"}, ("retention_days", "width")
"""The unit of durations, and the settings that are whole numbers."""


class LoopConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a loop. The store has all versions.

    A decision is learned with the settings with which it was made. A shorter reward window is an exception: it also
    applies to decisions whose window is still open. Messages of errors have the names of settings that clients send.
    """

    reward_wait: Annotated[
        float,
        Meta(ge=0, le=LONGEST_WINDOW, extra=SECONDS, description="For how long after a decision rewards are accepted."),
    ] = 600.0
    default_reward: Annotated[
        float, Meta(ge=-1, le=1, description="The reward of a decision for which none came in time.")
    ] = 0.0
    aggregation: Annotated[
        Aggregation,
        Meta(description="How several rewards of a decision become one."),
    ] = Aggregation.EARLIEST
    reward_range: Annotated[
        tuple[float, float] | None,
        Meta(
            description="The smallest and the largest reward that new decisions accept. null: all that the link of the "
            "policy accepts, and [-1, 1] for events ranked through the Personalizer API."
        ),
    ] = None
    exploration: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="The share of decisions that are uniformly random: each of K allowed actions has at least "
            "probability exploration / K.",
        ),
    ] = 0.2
    mode: Annotated[
        Mode,
        Meta(description="Online shows the chosen action. The others show the baseline; Apprentice learns from it."),
    ] = Mode.ONLINE
    model_update: Annotated[
        float, Meta(ge=0, le=DAY, extra=SECONDS, description="The time between two updates of the model.")
    ] = 1.0
    retention_days: Annotated[
        int,
        Meta(
            ge=-1,
            le=100_000,
            extra={"unit": "days"},
            description="After how many days decisions are deleted from the log: 1 or more, or -1 for never.",
        ),
    ] = -1
    width: Annotated[
        int,
        Meta(
            ge=1,
            le=LARGEST_WIDTH,
            description="The number of features of an action. Named features are hashed into so many numbers.",
        ),
    ] = 256
    sparse: Annotated[
        bool | None,
        Meta(
            description="Whether the model is sparse: time and memory depend on the features that are not 0, and the "
            "width may be above 1,000,000. null: sparse if the width is above 4,096."
        ),
    ] = None
    policy: Annotated[str, Meta(description="The policy that decides, such as optimist.")] = "optimist"
    settings: Annotated[dict[str, Any], Meta(description="The settings of the policy, such as link and half_life.")] = (
        msgspec.field(default_factory=lambda: settings_of(Optimist(link="identity")))
    )

    sticky: Annotated[
        bool,
        Meta(
            description="Whether a unit gets the same action again for the same set of actions. If false, only "
            "requests with sticky get it."
        ),
    ] = False
    sticky_for: Annotated[
        float,
        Meta(
            ge=0,
            le=LONGEST_WINDOW,
            extra=SECONDS,
            description="For how long after its draw a sticky unit gets the same action again.",
        ),
    ] = float(DAY)
    control: Annotated[
        Control | None, Meta(description="The control group: share, by (unit or event) and show. null: none.")
    ] = None
    metrics: Annotated[
        dict[str, MetricSettings],
        Meta(
            description="The metrics that treatment and control are compared by, with their guardrails. The name "
            "reward is for the reward of the loop."
        ),
    ] = {}
    variants: Annotated[
        dict[str, Variant],
        Meta(description="The variants of a feature flag by name: the loop is then a flag of its own name."),
    ] = {}
    default_variant: Annotated[
        str | None,
        Meta(description="The variant that control gets, and all while the loop is stopped. null: the first one."),
    ] = None

    def __post_init__(self) -> None:
        for name in DECLARED:
            check_setting(name, getattr(self, name))
        self._check_reward_range()
        check_metrics(self.metrics)
        self._check_windows()
        check_variants(self.variants, self.default_variant)
        if (self.sticky or self.variants) and self.control is not None and self.control.by == "event":
            what, other = ("sticky=true", "sticky to false") if self.sticky else ("a loop with variants", "no variants")
            raise InvalidInput(
                f'{what} needs a control group by unit, because single events get no action again; got "by": '
                f'"event". Set by to unit, or {other}'
            )
        policy = self.build_policy()
        self._check_sparse(policy) if self.is_sparse else self._check_size()

    def _check_reward_range(self) -> None:
        if self.reward_range is None:
            return
        lowest, highest = (check_float("rewardRange", bound, at_least=-MAX_ABS) for bound in self.reward_range)
        if not lowest < highest:
            raise InvalidInput(f"rewardRange must go from a smaller to a larger number; got {self.reward_range}")
        if not lowest <= self.default_reward <= highest:
            raise InvalidInput(f"defaultReward must be in rewardRange {self.reward_range}; got {self.default_reward}")

    def _check_windows(self) -> None:
        longest = {f"the window of metric {name!r}": metric.seconds for name, metric in self.metrics.items()}
        for what, seconds in {"stickyFor": self.sticky_for, **longest}.items():
            if 0 < self.retention_days * DAY < seconds:
                raise InvalidInput(
                    f"{what} must be at most retentionDays, after which decisions are deleted; got {seconds:g} s and "
                    f"{self.retention_days} days"
                )

    @property
    def is_sparse(self) -> bool:
        """Whether the model is sparse."""
        return self.width > DENSE_WIDTH if self.sparse is None else self.sparse

    def _check_sparse(self, policy: Policy) -> None:
        try:
            sparse_form(policy, self.width)
        except InvalidInput as error:
            why, other = f"above a width of {DENSE_WIDTH:,}", f"a width of at most {DENSE_WIDTH:,}"
            if self.sparse is not None:
                why, other = "with sparse=true", "sparse=false"
            raise InvalidInput(f"a loop is sparse {why}. Set {other}, or change the policy: {error}") from None

    def _check_size(self) -> None:
        if self.width > LARGEST_DENSE_WIDTH:
            raise InvalidInput(
                f"width must be at most {LARGEST_DENSE_WIDTH:,} with sparse=false; got {self.width:,}. Omit sparse"
            )
        try:
            settings = msgspec.json.encode(self.settings).decode()
            fits = model_size(self.policy, settings, self.width) <= LARGEST_MODEL
        except MemoryError:
            fits = False
        if not fits:
            raise InvalidInput(
                f"a model of {self.policy} may have {LARGEST_MODEL:,} numbers, and has more with these settings and a "
                f"width of {self.width:,}. Use a smaller width, or optimist"
            )

    @property
    def reward_window(self) -> int:
        """Microseconds after a decision for which rewards are accepted."""
        return round(self.reward_wait * SECOND)

    def reward_limits(self) -> tuple[float, float] | None:
        """Return the smallest and the largest reward that is learned; None if unbounded."""
        link = find_link(self.build_policy().link)
        lowest, highest = self.reward_range or (link.lowest_reward, link.highest_reward)
        limits = max(lowest, link.lowest_reward), min(highest, link.highest_reward)
        return limits if math.isfinite(limits[1] - limits[0]) and limits[0] < limits[1] else None

    def check_reward_limits(self) -> None:
        """Raise InvalidInput if the policy needs limits of the rewards, and the loop has none."""
        if self.policy not in LIMITS_OUTLIERS and self.reward_limits() is None:
            raise InvalidInput(
                f"{self.policy} does not limit outliers, so one wrong reward could spoil its model, and this loop has "
                f"no limits of the rewards. Set rewardRange, for example to [0, 1], or use optimist"
            )

    @property
    def assignment(self) -> tuple[str, str] | None:
        """The rule of the control group, except its share: what is assigned, and what control gets. None: no group."""
        return None if self.control is None else (self.control.by, self.control.show)

    def compared(self) -> dict[str, MetricSettings]:
        """Return the metrics by which the groups are compared. The reward is one, unless it is unbounded."""
        limits = self.reward_limits()
        if limits is None or REWARD in self.metrics or self.control is None:
            return self.metrics
        default = min(max(self.default_reward, limits[0]), limits[1])
        own = MetricSettings(range=limits, default=default, action=GuardrailAction.NONE)
        return {REWARD: own} | self.metrics

    def build_policy(self) -> Policy:
        """Return the policy with its settings. Raises InvalidInput if the service cannot run it."""
        kind = lookup("policy", self.policy, POLICIES)
        try:
            policy = rebuild(kind, self.settings)
        except TypeError as error:
            for name in self.settings:
                lookup(f"setting of {self.policy}", name, settings_of(kind()))
            raise InvalidInput(f"{self.policy} cannot have the settings {self.settings}: {error}") from None
        if policy.keeps_history:
            raise InvalidInput(f"{self.policy} stores all past rewards, which a service cannot do. Use optimist")
        return policy


DECLARED: dict[str, Meta] = {
    name: kind.__metadata__[0] for name, kind in get_type_hints(LoopConfig, include_extras=True).items()
}
"""The description, the unit and the range of each setting."""
SENT_NAMES = {name: re.sub("_(.)", lambda found: found[1].upper(), name) for name in DECLARED}
"""The names of settings as clients send them."""


def check_setting(name: str, value: Any, shown_name: str | None = None) -> Any:
    """Return the value of a setting, a duration in seconds.

    Raises InvalidInput if a number is outside the range. `shown_name` is the name of the setting in messages; None for
    that of `SENT_NAMES`.
    """
    meta, shown_name = DECLARED[name], shown_name or SENT_NAMES[name]
    if meta.ge is None or meta.le is None:  # not a number
        return value
    if meta.extra == SECONDS:
        return parse_duration(shown_name, value, at_most=meta.le)
    lowest = 1 if name == "retention_days" and value != -1 else meta.ge
    if name in WHOLE:
        return check_int(shown_name, value, at_least=int(lowest), at_most=int(meta.le))
    return check_float(shown_name, value, at_least=lowest, at_most=meta.le)


@lru_cache(maxsize=64)  # the configuration is read again every second
def model_size(policy: str, settings: str, width: int) -> int:
    """Return the size of the model of a policy, in numbers. The settings are JSON.

    The size is only known once a model is made. So models of width 1, 2, 4, ... are made first. If one of them is
    larger than `LARGEST_MODEL`, its size is returned, and no far larger model is made.
    """
    instance = rebuild(POLICIES[policy], msgspec.json.decode(settings))
    narrower = (2**power for power in range(width.bit_length() - 1))
    size = 0
    for candidate_width in (*narrower, width):
        size = instance.init(candidate_width).size
        if size > LARGEST_MODEL:
            break
    return size
