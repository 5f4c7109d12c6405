"""TableLayout: the arms of a table, its feature map, and which columns have what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from glbandits.common.arrays import Floats
from glbandits.evaluation.logs.schema import LogSchema
from glbandits.evaluation.readers.columns import Columns, columns_of
from glbandits.evaluation.readers.pair_features import PairFeatures
from glbandits.features import FeatureMap
from glbandits.features.feature_map.combination import Entries
from glbandits.features.transformer_features import Features
from glbandits.maths.links import Link


@dataclass(frozen=True, eq=False, kw_only=True)
class TableLayout:
    """Properties of a table that are needed to read its rows."""

    columns: Columns
    link: str | Link
    link_inferred: bool = False
    """Whether it was inferred from the rewards."""
    rows: int
    max_arms: int
    """Largest number of arms in a row."""
    sparse: bool
    """Whether arms are `SparseArms`."""
    arm_names: tuple[str, ...] = ()
    """Names of all arms, over all rows; empty if arms have no names."""
    arm_values: Mapping[str, Any] = field(default_factory=dict)
    """The columns of the arm table, in the order of `arm_names`, and the names in the column of the arm."""
    arm_rows: Sequence[int] = ()
    """The row of each arm in the arm table, in the order of `arm_names`."""
    features: Features | None = None
    """The map from columns to features; None in formats without one."""
    pairs: PairFeatures | None = None
    """The features of arms in formats that define them."""
    has_arm_table: bool = False
    """Whether the names of the arms come from an arm table, not from the rows."""
    other_links: Mapping[str, str | Link] = field(default_factory=dict)
    """The links of other rewards, by their columns."""
    checked: bool = False
    """Whether all rows are known to be valid, except for their features."""
    reads_features: bool = True

    @cached_property
    def schema(self) -> LogSchema:
        """What the rows have."""
        columns, crossed = self.columns, self.features
        known = columns.propensity is not None or columns.probabilities is not None
        has_context = not isinstance(crossed, FeatureMap) or crossed.context.width or crossed.own.width
        return LogSchema(
            rows=self.rows,
            dim=self.dim,
            max_arms=self.max_arms,
            names=() if columns.arms is None and columns.features is not None else self.arm_names,
            same_arms=self.fixed,
            same_features=self.fixed and not has_context and not self.sparse,
            sparse=self.sparse,
            feature_map=self.feature_map,
            link=self.link,
            link_inferred=self.link_inferred,
            propensities=known,
            probabilities=columns.probabilities is not None,
            payoffs=columns.values is not None,
            clusters=columns.cluster is not None,
            proposed=columns.proposed,
            other_rewards=self.other_links,
        )

    @cached_property
    def without_features(self) -> "TableLayout":
        """The layout of the same table without columns that only features need."""
        return replace(self, reads_features=False)

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        if self.pairs is not None:
            return self.pairs.dim
        assert self.features is not None
        return self.features.dim

    @property
    def feature_map(self) -> Features | None:
        """The map from columns to features; None if the table has all features as numbers."""
        if self.pairs is not None:
            return self.features
        return None if self.columns.features is not None and not self.columns.context else self.features

    @cached_property
    def arm_features(self) -> Floats:
        """Features of each named arm, (K, q)."""
        assert isinstance(self.features, FeatureMap)
        return self.features.arm.encode(self.arm_values, len(self.arm_names), self.arm_rows)

    @cached_property
    def arm_entries(self) -> Entries:
        """Nonzero features of each named arm."""
        assert isinstance(self.features, FeatureMap)
        return self.features.arm.encode_sparse(self.arm_values, len(self.arm_names), self.arm_rows)

    @property
    def wanted(self) -> list[str]:
        """All columns that are read, without repetitions."""
        of_patterns = [name for role in self.columns.patterns for name in self.columns_of_each_arm(role)]
        if not self.reads_features:
            only_features = {*self.columns.context, *([] if self.columns.arms is None else [self.columns.features])}
            return [name for name in dict.fromkeys([*self.columns.of_rows, *of_patterns]) if name not in only_features]
        per_arm = [name for group in self.columns.of_arms(self.arm_names) for name in group]
        own = () if self.pairs is None else self.pairs.columns
        return list(dict.fromkeys([*self.columns.of_rows, *per_arm, *of_patterns, *own]))

    def columns_of_each_arm(self, role: str) -> list[str]:
        """Columns of one of OF_EACH_ARM in the order of `arm_names`; empty if a single column has all numbers."""
        pattern = self.columns.patterns.get(role)
        return [] if pattern is None else columns_of(pattern, self.arm_names)

    @property
    def unknown_arm_advice(self) -> str:
        """Advice for a row with an arm that is not in `arm_names`."""
        if self.has_arm_table:
            return "Add the arm to arm_table, or drop such rows"
        if self.columns.arms is not None:
            return "Add the chosen arm to the list, or drop such rows"
        return "The table has changed since it was opened; open it again"

    @property
    def fixed(self) -> bool:
        """Whether all rows have the same arms."""
        return self.columns.arms is None and self.columns.features is None
