"""Differences of policies to one of them, paired by seed, with intervals that hold for all of them at once."""

from collections.abc import Mapping
from typing import NamedTuple

from glbandits.common.arrays import Floats
from glbandits.common.display.text_format import with_half_width
from glbandits.common.errors import lookup
from glbandits.lab.experiments.outcomes import half_width

SIMULTANEOUS = (
    "Differences are paired by seed. The intervals of all policies of a problem hold at once with 95 % (Student's t, "
    "Bonferroni): if all policies are equal, at most one such table in 20 calls any of them better or worse."
)


class Difference(NamedTuple):
    """The regret of a policy minus that of the reference: negative if the policy is better."""

    mean: float
    half_width: float | None
    """Of the simultaneous 95 % interval; None for a single seed."""

    @property
    def verdict(self) -> str:
        """Return "better" or "worse" than the reference, or "no difference shown"."""
        if self.half_width is None or abs(self.mean) <= self.half_width:
            return "no difference shown"
        return "better" if self.mean < 0.0 else "worse"

    def text(self, decimals: int) -> str:
        """Return the difference with its interval and verdict."""
        return f"{with_half_width(*self, decimals, sign=True)}: {self.verdict}"


def paired_differences(finals: Mapping[str, Floats], reference: str) -> dict[str, Difference]:
    """Return the difference of each other policy to the reference.

    The policies must have played the same rounds with the same seeds. Each interval has the level 1 - 0.05 / m for m
    other policies (Bonferroni). So the probability that any of them misses its true difference is at most 5 %, as far
    as the mean over seeds is normal.

    Args:
        finals: the final regret of each policy, (seeds,).
        reference: the name of a policy.
    """
    own = lookup("policy as reference", reference, finals)
    others = [label for label in finals if label != reference]
    differences = {}
    for label in others:
        values = finals[label] - own
        width = float(half_width(values[:, None], comparisons=len(others))[0])
        differences[label] = Difference(float(values.mean()), width if len(values) > 1 else None)
    return differences
