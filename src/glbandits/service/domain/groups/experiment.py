"""The control group and the metrics of a loop: settings, and the group of a unit.

A unit is what the groups are made of, such as a user. A salted hash of it decides its group, so every process assigns
the same group without a look into the store.
"""

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from glbandits.common.errors import MAX_ABS, InvalidInput, check_float, value_text
from glbandits.service.domain.durations import LONGEST_WINDOW, parse_duration
from glbandits.service.domain.events import Group

REWARD = "reward"
"""The name under which the reward of a loop is compared."""
LONGEST_METRIC_NAME, MOST_METRICS = 64, 20
SMALLEST_SHARE, LARGEST_SHARE = 0.01, 0.5
SHORTEST_WINDOW = 1.0
"""Of a metric, in seconds. Its numbers come after the decision."""
SHOWN = re.compile("baseline|uniform|arm:.{1,256}")
"""What `Control.show` may be."""


class UnitCombination(StrEnum):
    """How the numbers of a metric that belong to one unit become one."""

    SUM = "sum"
    MEAN = "mean"
    LAST = "last"


class GuardrailAction(StrEnum):
    """What happens when a metric of treatment is worse than that of control by more than the margin."""

    NONE = "none"
    """The metric is only compared."""
    ALERT = "alert"
    FALLBACK = "fallback"
    """The loop shows the baseline until a person ends that, see `LoopGuardrails.resume`."""


class Control(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The control group of a loop."""

    share: Annotated[
        float, Meta(ge=SMALLEST_SHARE, le=LARGEST_SHARE, description="The share of units in the control group.")
    ]
    by: Annotated[
        Literal["unit", "event"],
        Meta(description="What is assigned to a group: units, or single events. A decision without unit counts alone."),
    ] = "unit"
    show: Annotated[
        str,
        Meta(
            description="What control gets: baseline, the baseline action of the request; uniform, a random action; "
            "arm:ID, the action with this id, or the baseline of a request that does not offer it.",
        ),
    ] = "baseline"

    def __post_init__(self) -> None:
        if not SHOWN.fullmatch(self.show):
            raise InvalidInput(
                "show must be baseline, uniform, or arm: and the id of an action, 1 to 256 characters without line "
                f"breaks; got {value_text(self.show)}"
            )


class MetricSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A metric of a loop, and its guardrail."""

    range: Annotated[
        tuple[float, float],
        Meta(description="The smallest and the largest number of a unit. Numbers outside count as the nearest bound."),
    ]
    good: Annotated[Literal["higher", "lower"], Meta(description="Which numbers are good.")] = "higher"
    combine: Annotated[
        UnitCombination, Meta(description="How several numbers of a unit become one: sum, mean or last.")
    ] = UnitCombination.MEAN
    window: Annotated[
        float | str,
        Meta(
            description="For how long after the first decision of a unit its numbers count. Seconds, or a text such as "
            "12h or 7d."
        ),
    ] = 86_400.0
    default: Annotated[
        float | None,
        Meta(
            description="The number of a unit for which none came in the window. If it is null, it is 0 for sum, and "
            "units without a number are left out otherwise."
        ),
    ] = None
    margin: Annotated[
        float, Meta(ge=0, description="By how much treatment may be worse than control before the guardrail acts.")
    ] = 0.0
    action: Annotated[GuardrailAction, Meta(description="What the guardrail does: none, alert or fallback.")] = (
        GuardrailAction.ALERT
    )

    @property
    def seconds(self) -> float:
        """The length of the window in seconds."""
        return parse_duration("window", self.window, at_most=LONGEST_WINDOW)

    @property
    def value_if_missing(self) -> float | None:
        """The number of a unit for which none came; None if such units are left out."""
        return 0.0 if self.default is None and self.combine is UnitCombination.SUM else self.default

    def check(self, name: str) -> None:
        """Raise InvalidInput for settings that contradict each other. `name` is that of the metric."""
        low, high = (check_float(f"the range of metric {name!r}", bound, at_least=-MAX_ABS) for bound in self.range)
        if not low < high:
            raise InvalidInput(
                f"the range of metric {name!r} must go from a smaller to a larger number; got {list(self.range)}"
            )
        missing = self.value_if_missing
        if missing is not None and not low <= missing <= high:
            raise InvalidInput(
                f"the default of metric {name!r} must be in its range, {list(self.range)}; got {missing:g}. Set "
                "default to the number of a unit for which none came"
            )
        if not 0.0 <= self.margin < high - low:
            raise InvalidInput(
                f"the margin of metric {name!r} must be less than the length of its range, {high - low:g}; got "
                f"{self.margin:g}"
            )
        seconds = parse_duration(f"the window of metric {name!r}", self.window, at_most=LONGEST_WINDOW)
        if name != REWARD and seconds < SHORTEST_WINDOW:
            raise InvalidInput(
                f"the window of metric {name!r} must be at least {SHORTEST_WINDOW:g} s, because its numbers come after "
                f"the decision; got {value_text(self.window)}"
            )

    def scaled(self, value: float) -> float:
        """Return the number of a unit on the scale of 0 to 1; a bound of the range for a number outside."""
        low, high = self.range
        return min(max((value - low) / (high - low), 0.0), 1.0)


def check_metrics(metrics: dict[str, MetricSettings]) -> None:
    """Raise InvalidInput for too many metrics, names that cannot be used, or settings that contradict each other."""
    if len(metrics) > MOST_METRICS:
        raise InvalidInput(f"a loop may have {MOST_METRICS} metrics; got {len(metrics)}")
    for name, metric in metrics.items():
        check_metric_name(name)
        metric.check(name)


def check_numbers(metrics: Mapping[str, MetricSettings], numbers: Mapping[str, float]) -> None:
    """Raise InvalidInput if a number of an event is not finite, or of a metric that the loop does not have."""
    for name, number in numbers.items():
        if name == REWARD:
            raise InvalidInput("reward is not a metric; send it to /v1/reward")
        if name not in metrics:
            known = ", ".join(sorted(metrics.keys() - {REWARD})) or "none"
            raise InvalidInput(f"the loop has no metric {value_text(name)}; its setting metrics has {known}")
        check_float(f"the number of metric {name!r}", number, at_least=-MAX_ABS)


def check_metric_name(name: Any) -> None:
    """Raise InvalidInput if a metric cannot have this name."""
    is_name = isinstance(name, str) and 1 <= len(name) <= LONGEST_METRIC_NAME and name.isprintable()
    if not is_name or name.isspace():
        raise InvalidInput(
            f"a metric has a name of 1 to {LONGEST_METRIC_NAME} printable characters, not only spaces; got "
            f"{str(name)[:80]!r}"
        )


def hashed_unit(salt: str, unit: str) -> str:
    """Return the salted hash of a unit, 32 hexadecimal digits, which the store has in its place."""
    return blake2b(unit.encode(), key=salt.encode()[:64], digest_size=16).hexdigest()


def group_of(salt: str, name: str, share: float) -> Group:
    """Return the group of a unit or an event. With a larger share, all members of control stay in control."""
    digest = blake2b(f"group\0{name}".encode(), key=salt.encode()[:64], digest_size=8).digest()
    return Group.CONTROL if int.from_bytes(digest, "little") < math.ldexp(share, 64) else Group.TREATMENT
