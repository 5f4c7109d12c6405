"""Warnings of outliers that a policy has limited."""

import warnings
from typing import Any

from glbandits.common.arrays import Floats
from glbandits.policies.contract import OutlierWarning, Policy

REWARD = -1
"""Stands for outlying rewards among the indices of features with outlying values."""


class OutlierWatch:
    """Notices new outliers in the state of a Bandit, and warns of each feature once, and of rewards once."""

    def __init__(self, form: Policy, dim: int, feature_map: Any, state: Floats) -> None:
        self._form, self._dim, self._feature_map = form, dim, feature_map
        at = form.implementation(dim).outliers_at
        self._limits, self._at = at is not None, at or 0
        self._count = state.item(self._at) if self._limits else 0.0
        self._known = self._parts(state) if self._count > 0.0 else set()

    def has_news(self, state: Floats) -> bool:
        """Whether the policy has limited an outlier since the last call of `warn`. Takes 50 ns."""
        return self._limits and state.item(self._at) > self._count

    def warn(self, state: Floats) -> None:
        """Warn of features, or of rewards, that had no outliers before."""
        parts = self._parts(state)
        new, self._known, self._count = parts - self._known, parts | self._known, state.item(self._at)
        for part in sorted(new):
            warnings.warn(self._text(part), OutlierWarning, stacklevel=3)

    def _parts(self, state: Floats) -> set[int]:
        outliers = self._form.outliers(state, self._dim)
        return {*outliers.features, *([REWARD] if outliers.rewards else [])}

    def _text(self, part: int) -> str:
        if part == REWARD:
            return "a reward is far outside all rewards so far, and is learned as one of usual size. Check the data"
        names = getattr(self._feature_map, "names", None)
        return (
            f"feature {part if names is None else repr(names[part])} has a value far above its usual size, which is "
            "learned as a value of usual size. Check the data, or scale the feature, for example by its logarithm"
        )
