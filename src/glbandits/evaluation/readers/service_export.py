"""Read the Parquet files that `glb store export` writes: decisions of the service, with the names of their arms.

An export has the features that the present model of the loop uses. It also has the fields of each request as JSON, so
that another feature map can encode them.
"""

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput, lookup
from glbandits.common.export_manifest import METRIC, Manifest, RunningPolicy, read_manifest
from glbandits.evaluation.logs.arm_features import ArmFeatures, RowArmNames, RowArms
from glbandits.evaluation.logs.logged_data import BLOCK, MAX_DENSE_FEATURES, DisplayedLog, LoggedData, block_size
from glbandits.evaluation.logs.reward_checks import AUTO_LINK, inferred_link
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.evaluation.readers.column_values import cluster_ids, name_indices
from glbandits.evaluation.readers.reward_columns import binary_rewards
from glbandits.evaluation.readers.table_log import SPARSE_FEATURES, convert_polars_errors
from glbandits.features import FeatureMap, Features
from glbandits.features.kinds.categorical import natural_order
from glbandits.features.table_columns import check_present, request_rows
from glbandits.features.transformer_features import as_features
from glbandits.maths.links import Link, find_link
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows, joined_rows

Mask: TypeAlias = NDArray[np.bool_]

DENSE: tuple[str, ...] = ("features",)
"""The column with the features of the actions as numbers."""
SPARSE: tuple[str, ...] = ("feature_counts", "feature_indices", "feature_values")
"""The columns with the features of the actions as sparse rows."""
FIELDS: tuple[str, ...] = ("context", "action_fields")
"""The columns with the fields of the request and of its actions as JSON."""
REWARD = "reward"
"""The column of the reward that the loop learned."""
PAYOFFS: tuple[str, ...] = ("values", "costs")
"""The columns with the values and costs of the actions."""
GROUPS: tuple[str, ...] = ("mode", "group", "fallback", "repeats")
"""The columns that say whether the shown action was drawn."""
UNDRAWN = (
    pl.when("fallback")
    .then(pl.lit("in fallback"))
    .when((pl.col("group") == "control") & (pl.col("mode") == "Online"))
    .then(pl.lit("of the control group"))
    .when(pl.col("repeats") != "")
    .then(pl.lit("repeats of sticky units"))
)
"""Why the shown action was not drawn by the policy of the loop; null if it was, and in modes other than Online."""
PAIRS = 2**15
"""Number of pairs of row and arm that a feature map encodes together."""
LISTED_COLUMNS = 10
"""Maximum number of columns that a message lists."""


def is_export(folder: Path) -> bool:
    """Whether a folder has a complete export, maybe without decisions."""
    try:
        files = _files(folder, read_manifest(folder))
        return not files or "actions" in pl.read_parquet_schema(files[0])
    except (InvalidInput, OSError, pl.exceptions.PolarsError):
        return False


def read_export(
    folder: str | PathLike[str],
    *,
    link: str | Link = AUTO_LINK,
    cluster: str | None = None,
    features: Any = None,
    sparse: bool | None = None,
    payoffs: bool = True,
    reward: str = REWARD,
) -> "ServiceExport":
    """Read the log that `glb store export` wrote to a folder. The log may be larger than memory.

    Events whose action was not drawn are left out, and a warning says how many: those of the control group, in
    fallback, and repeats of sticky units.

    Args:
        folder: the folder of the export.
        link: defines the valid rewards; by default that of the loop's policy.
        cluster: the column of the clusters, such as "event_id".
        features: a feature map, such as that of another model, or a fitted scikit-learn transformer. It encodes the
            fields of the requests. By default, the features are those of the present model of the loop.
        sparse: whether arms are `SparseArms`. By default as in the export, or above 4,096 features.
        payoffs: whether the values and costs of the actions are read, if a decision has them. In decisions without
            them, every value is 1 and every cost 0, as the service decided. Those of a metric are never read.
        reward: the column that is evaluated: "reward", or that of a metric, such as "metric:latency_ms". Decisions
            whose window of the metric was open at the export are left out, and a warning says how many.

    Raises InvalidInput if the folder has no complete export, or if `features` is given and the export has no fields.
    """
    path = Path(folder).absolute()
    manifest = read_manifest(path)
    files, running = _files(path, manifest), manifest.running
    for file in files:
        if not file.is_file():
            raise _damaged(f"its file {file.name} is missing")
    if not manifest.rows or not files:
        raise InvalidInput(f"{folder} has no decision. Export the log again when reward windows have closed")
    sparse_width, document = manifest.sparse_width, manifest.feature_map
    is_sparse_export = sparse_width is not None
    feature_map: Features | None = None if document is None else FeatureMap.from_document(document)
    columns = SPARSE if is_sparse_export else DENSE
    given = None if features is None else as_features(features)
    if given is not None and (given != feature_map or (is_sparse_export and sparse is False)):
        feature_map, columns = given, FIELDS
    if columns is SPARSE and sparse is False:
        raise InvalidInput(f"{folder} has sparse rows of {sparse_width} features. Leave out sparse", field="sparse")
    with convert_polars_errors():
        table = pl.scan_parquet(list(files))
        if cluster is not None:
            check_present([cluster], table.collect_schema().names())
        if columns is FIELDS:
            assert given is not None
            _check_fields(table, given, folder)
            dim = given.dim
        else:
            dim = sparse_width or table.select(pl.col("features").list.first().list.len().first()).collect().item()
        all_rows = table.select(pl.len()).collect().item()
        has_groups = {*GROUPS} <= {*table.collect_schema().names()}
        undrawn = _undrawn_rankings(table) if has_groups else None
        if undrawn is not None:
            _warn_of_undrawn(table, undrawn)
            table = table.filter(_is_drawn(undrawn))
        if reward != REWARD:
            table = _with_numbers(table, reward)
            running = None if running is None else msgspec.structs.replace(running, reward_range=None)
        payoff_columns = PAYOFFS if payoffs and reward == REWARD and _has_payoffs(table) else ()
        arms = pl.col("actions")
        names = table.select(arms.explode().unique()).collect(engine="streaming").to_series().to_list()
        binary = binary_rewards(pl.col(reward).cast(pl.Float64)).alias("binary")
        max_arms, rows, is_binary = table.select(arms.list.len().max(), pl.len().alias("rows"), binary).collect().row(0)
    if all_rows != manifest.rows:
        raise _damaged(f"it has {all_rows:,} rows, and its manifest says {manifest.rows:,}")
    if not rows:
        raise InvalidInput(f"{folder} has no decision whose action was drawn. Export the log again when there are some")
    if None in names or dim is None:
        raise _damaged("a decision has no actions or features")
    return ServiceExport(
        files=files,
        rows=rows,
        dim=dim,
        max_arms=max_arms,
        names=natural_order(names),
        link=find_link(
            running.link
            if link == AUTO_LINK and running and reward == REWARD
            else inferred_link(link, are_binary=is_binary)
        ),
        reward=reward,
        cluster=cluster,
        feature_map=feature_map,
        sparse=columns is SPARSE or dim > MAX_DENSE_FEATURES if sparse is None else bool(sparse),
        feature_columns=columns,
        payoff_columns=payoff_columns,
        undrawn=undrawn,
        running=running,
    )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ServiceExport(DisplayedLog):
    """An exported log of the service. Reading holds one file at a time in memory.

    Rows have different arms, and each row names its arms (`LoggedData.row_arm_names`).
    """

    files: tuple[Path, ...]
    rows: int
    dim: int
    """Number of features of an arm."""
    max_arms: int
    """Largest number of arms in a row."""
    names: tuple[str, ...]
    """Ids of all actions, over all rows."""
    link: Link
    cluster: str | None
    """The column of the clusters."""
    feature_map: Features | None
    """The map from fields to features; None if the service hashed the fields, or received numbers."""
    sparse: bool
    """Whether the arms are `SparseArms`."""
    reward: str
    """The column of the rewards."""
    feature_columns: tuple[str, ...]
    """The columns from which features are computed: DENSE, SPARSE or FIELDS."""
    payoff_columns: tuple[str, ...]
    """PAYOFFS; or () if no decision has values. Then estimates are rewards."""
    undrawn: pl.Series | None
    """Ids of the events with several slots of which one was not drawn; None if the export does not say it."""
    running: RunningPolicy | None
    """What decides in the loop; None in an export of another program."""
    arm_names: ClassVar[None] = None

    def __len__(self) -> int:
        return self.rows

    @property
    def folder(self) -> Path:
        """The folder of the export."""
        return self.files[0].parent

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        """Yield all rows in order, in blocks of at most `size` rows."""
        size = block_size(size, self.max_arms, SPARSE_FEATURES if self.sparse else self.dim)
        columns = ["event_id", "actions", "arm", "propensity", "probabilities", self.reward, *self.feature_columns]
        columns += self.payoff_columns
        columns += () if self.undrawn is None else GROUPS
        columns += [] if self.cluster is None or self.cluster in columns else [self.cluster]
        for file in self.files:
            with convert_polars_errors():
                table = pl.read_parquet(file, columns=columns)
                if self.undrawn is not None:
                    table = table.filter(_is_drawn(self.undrawn))
                table = table.filter(pl.col(self.reward).is_not_null())
            yield from map(self._logged, table.iter_slices(size))

    def _logged(self, table: pl.DataFrame) -> LoggedData:
        counts = table["actions"].list.len().cast(pl.Int64).to_numpy()
        arm_mask = np.arange(self.max_arms) < counts[:, np.newaxis]
        numbers = {name: np.zeros(arm_mask.shape) for name in ("probabilities", *self.payoff_columns)}
        for name, array in numbers.items():
            array[arm_mask] = float(name == "values")  # without payoffs, a value is 1 and a cost 0
            given = table[name].is_not_null().to_numpy() if name in PAYOFFS else np.full(len(table), True)
            array[arm_mask & given[:, np.newaxis]] = _values(table[name].filter(given).explode(), counts[given].sum())
        indices = np.full(arm_mask.shape, -1)
        indices[arm_mask] = name_indices(table["actions"].explode(), self.names, advice="Open the export again")
        return LoggedData(
            chosen=table["arm"].to_numpy(),
            rewards=table[self.reward].to_numpy(),
            propensities=table["propensity"].to_numpy(),
            probabilities=numbers["probabilities"],
            values=numbers.get("values"),
            costs=numbers.get("costs"),
            arms=self._arms(table, counts, arm_mask),
            clusters=None if self.cluster is None else cluster_ids(table[self.cluster]),
            link=self.link,
            feature_map=self.feature_map,
            row_arm_names=RowArmNames(self.names, indices),
        )

    def _arms(self, table: pl.DataFrame, counts: Ints, arm_mask: Mask) -> ArmFeatures:
        if self.feature_columns == FIELDS:
            pairs = self._encoded(table)
        elif self.feature_columns == SPARSE:
            pairs = _sparse_rows(table)
        else:
            values = _values(table["features"].explode().explode(), int(counts.sum()) * self.dim)
            pairs = values.reshape(-1, self.dim)
        if self.sparse:
            return SparseArms(as_sparse_rows(pairs, self.dim), counts, self.dim, max_arms=self.max_arms)
        arms = np.zeros((*arm_mask.shape, self.dim))
        arms[arm_mask] = pairs
        return RowArms(arms, counts)

    def _encoded(self, table: pl.DataFrame) -> Floats | SparseRows:
        """Encode the fields of all pairs of row and arm by the feature map."""
        parts = [self._encode(part) for part in table.iter_slices(max(1, PAIRS // self.max_arms))]
        if self.sparse:
            return joined_rows([as_sparse_rows(part, self.dim) for part in parts])
        pairs: Floats = np.concatenate(parts)
        return pairs

    def _encode(self, table: pl.DataFrame) -> Any:
        """Encode the fields of a few rows. Raises InvalidInput with the event whose fields do not fit."""
        features = self.feature_map
        assert features is not None
        requests = table.select("event_id", *FIELDS, "actions").rows()

        def rows_of(context: str, own: Sequence[str], actions: Sequence[str]) -> list[dict[str, Any]]:
            return request_rows(features, json.loads(context), list(map(json.loads, own)), actions)

        try:
            rows = [row for _, *request in requests for row in rows_of(*request)]
            return features.transform(rows, sparse=self.sparse)
        except InvalidInput:
            for event_id, *request in requests:
                try:
                    features.transform(rows_of(*request), sparse=self.sparse)
                except InvalidInput as error:
                    raise InvalidInput(
                        f"the fields of event {event_id!r} do not fit the feature map: {error}", field=error.field
                    ) from None
            raise


def _files(folder: Path, manifest: Manifest) -> tuple[Path, ...]:
    return tuple(folder / file.name for file in manifest.files)


def _undrawn_rankings(table: pl.LazyFrame) -> pl.Series:
    """Return the ids of events with several slots of which one was not drawn."""
    rankings = table.filter(UNDRAWN.is_not_null() & (pl.col("slot") != ""))
    return rankings.select(pl.col("event_id").unique()).collect(engine="streaming").to_series()


def _is_drawn(undrawn: pl.Series) -> pl.Expr:
    """Return whether the action of a row was drawn, and those of the other slots of its event."""
    return UNDRAWN.is_null() & ~pl.col("event_id").is_in(undrawn.implode())


def _warn_of_undrawn(table: pl.LazyFrame, undrawn: pl.Series) -> None:
    """Warn if decisions are left out, with the reasons."""
    why = pl.when(~_is_drawn(undrawn)).then(UNDRAWN.fill_null("of the same rankings")).alias("why")
    counted = dict(table.group_by(why).len().collect(engine="streaming").rows())
    rows, _ = sum(counted.values()), counted.pop(None, 0)
    if counted:
        listed = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counted.items()))
        warnings.warn(
            f"{sum(counted.values()):,} of {rows:,} decisions are left out, because the loop did not draw "
            f"their actions: {listed}",
            stacklevel=3,
        )


def _with_numbers(table: pl.LazyFrame, column: str) -> pl.LazyFrame:
    """Return the rows with a number of a metric. Warns if others are left out."""
    metrics = [name for name in table.collect_schema().names() if name.startswith(METRIC)]
    lookup("reward", column, dict.fromkeys([REWARD, *metrics]))
    rows, missing = table.select(pl.len().alias("rows"), pl.col(column).null_count()).collect().row(0)
    if missing:
        warnings.warn(
            f"{missing:,} of {rows:,} decisions are left out, because their window of {column} was open at the export",
            stacklevel=3,
        )
    return table.filter(pl.col(column).is_not_null())


def _damaged(what: str) -> InvalidInput:
    return InvalidInput(f"the export is damaged: {what}. Export the log again")


def _check_fields(table: pl.LazyFrame, features: Features, folder: object) -> None:
    """Raise InvalidInput unless all rows have the fields of their requests."""
    columns = list(getattr(features, "kinds", ()))
    needed = ", ".join(columns[:LISTED_COLUMNS]) + (", ..." if len(columns) > LISTED_COLUMNS else "")
    needs = f"the feature map needs the fields of the requests ({needed})" if needed else "features needs fields"
    if not {*FIELDS} <= {*table.collect_schema().names()}:
        raise InvalidInput(
            f"{needs}, but {folder} has only feature vectors: an earlier version wrote it. Export the log again"
        )
    without, rows = table.select(pl.col("context").null_count(), pl.len().alias("rows")).collect().row(0)
    if without:
        raise InvalidInput(
            f"{needs}, but {without:,} of {rows:,} decisions have none: they were requested with feature vectors, or "
            "exported with --without-fields. Use a model without a feature map, or export the fields"
        )


def _has_payoffs(table: pl.LazyFrame) -> bool:
    """Return whether a decision has values of its actions."""
    if not {*PAYOFFS} <= {*table.collect_schema().names()}:
        return False
    return bool(table.select(pl.col("values").is_not_null().any()).collect().item())


def _values(series: pl.Series, size: int) -> Floats:
    """Return the numbers of a list column. Raises InvalidInput unless there are so many."""
    if len(series) != size or series.null_count() or not series.dtype.is_numeric():
        raise _damaged(f"its column {series.name!r} does not have a number for each action")
    values: Floats = series.to_numpy()
    return values


def _sparse_rows(table: pl.DataFrame) -> SparseRows:
    return SparseRows(
        np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(table["feature_counts"].explode().to_numpy())]),
        table["feature_indices"].explode().drop_nulls().to_numpy(),
        table["feature_values"].explode().drop_nulls().to_numpy(),
    )
