"""Outliers: rewards and features that a model has limited, because they were far outside everything seen before."""

from collections.abc import Mapping
from dataclasses import dataclass, field


class OutlierWarning(UserWarning):
    """A feature or a reward was far outside everything seen before, and was limited."""


@dataclass(frozen=True)
class Outliers:
    """How many outliers a model has learned. It has learned a limited value in place of each."""

    rewards: int = 0
    values: int = 0
    """The number of outlying values of all features."""
    features: Mapping[int, int] = field(default_factory=dict)
    """The number of outlying values by the index of the feature, discounted if the policy has a half-life."""
