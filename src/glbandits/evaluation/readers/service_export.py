"""Read the Parquet files that `glb store export` writes: decisions of the service, with the names of their arms.

An export has the features that the present model of the loop uses. It also has the fields of each request as JSON, so
that another feature map can encode them.
"""

import warnings
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from glbandits.common.errors import InvalidInput, lookup
from glbandits.common.export_manifest import METRIC, Manifest, RunningPolicy, read_manifest
from glbandits.evaluation.logs.logged_data import MAX_DENSE_FEATURES
from glbandits.evaluation.logs.reward_checks import AUTO_LINK, inferred_link
from glbandits.evaluation.readers.columns import Columns
from glbandits.evaluation.readers.frames import convert_polars_errors
from glbandits.evaluation.readers.pair_features import NumberLists, PairFeatures, RequestFields, SparseLists
from glbandits.evaluation.readers.reward_columns import binary_rewards, links_of_others
from glbandits.evaluation.readers.table_layout import TableLayout
from glbandits.evaluation.readers.table_log import TableLog
from glbandits.features import FeatureMap
from glbandits.features.kinds.categorical import natural_order
from glbandits.features.table_columns import check_present
from glbandits.features.transformer_features import Features, as_features
from glbandits.maths.links import Link, find_link

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
    other_rewards: tuple[str, ...] = (),
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
        other_rewards: other such columns, which `LoggedData.other_rewards` keeps. Rows may lack them.
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
    if manifest.sparse_width is not None and sparse is False and features is None:
        raise InvalidInput(
            f"{folder} has sparse rows of {manifest.sparse_width} features. Leave out sparse", field="sparse"
        )
    with convert_polars_errors():
        table = pl.scan_parquet(list(files))
        if cluster is not None:
            check_present([cluster], table.collect_schema().names())
        given = None if features is None else as_features(features)
        feature_map, pairs = _features(table, manifest, given, sparse, folder)
        all_rows = table.select(pl.len()).collect().item()
        has_groups = {*GROUPS} <= {*table.collect_schema().names()}
        undrawn = _undrawn_rankings(table) if has_groups else None
        if undrawn is not None:
            _warn_of_undrawn(table, undrawn)
            table = table.filter(_is_drawn(undrawn))
        if reward != REWARD:
            table = _with_numbers(table, reward)
            running = None if running is None else msgspec.structs.replace(running, reward_range=None)
        others = [name for name in table.collect_schema().names() if name.startswith(METRIC) or name == REWARD]
        for name in other_rewards:
            lookup("reward", name, dict.fromkeys(others))
        has_payoffs = payoffs and not other_rewards and reward == REWARD and _has_payoffs(table)
        table = table.filter(pl.col(reward).is_not_null())
        actions = pl.col("actions")
        names = table.select(actions.explode().unique()).collect(engine="streaming").to_series().to_list()
        binary = binary_rewards(pl.col(reward).cast(pl.Float64)).alias("binary")
        sizes = table.select(actions.list.len().max(), pl.len().alias("rows"), binary).collect()
        max_arms, rows, are_binary = sizes.row(0)
        if all_rows != manifest.rows:
            raise _damaged(f"it has {all_rows:,} rows, and its manifest says {manifest.rows:,}")
        if not rows:
            raise InvalidInput(
                f"{folder} has no decision whose action was drawn. Export the log again when there are some"
            )
        if None in names or pairs.dim is None:
            raise _damaged("a decision has no actions or features")
        _check_lists(table, ["probabilities", *(["features"] if isinstance(pairs, NumberLists) else [])])
        if has_payoffs:
            _check_lists(table.filter(pl.col("values").is_not_null()), PAYOFFS)
        is_sparse = isinstance(pairs, SparseLists) or pairs.dim > MAX_DENSE_FEATURES if sparse is None else bool(sparse)
        default = running.link if link == AUTO_LINK and running and reward == REWARD else None
        layout = TableLayout(
            columns=Columns(
                arms="actions",
                reward=reward,
                cluster=cluster,
                other_rewards=other_rewards,
                values="values" if has_payoffs else None,
                costs="costs" if has_payoffs else None,
            ),
            link=find_link(inferred_link(link, are_binary=are_binary) if default is None else default),
            rows=rows,
            max_arms=max_arms,
            arm_names=natural_order(names),
            features=feature_map,
            pairs=pairs,
            sparse=is_sparse,
            other_links=links_of_others(table, other_rewards),
        )
        ones = pl.lit(1.0).repeat_by(actions.list.len())
        changes = [actions.list.get(pl.col("arm"), null_on_oob=True).alias("arm")]
        if has_payoffs:  # in decisions without them, a value is 1 and a cost 0
            changes += [pl.col("values").fill_null(ones), pl.col("costs").fill_null(ones * 0.0)]
        log = ServiceExport(table.with_columns(changes), layout)
    log.folder, log.running = path, running
    return log


def _features(
    table: pl.LazyFrame, manifest: Manifest, given: Features | None, sparse: bool | None, folder: object
) -> tuple[Features | None, PairFeatures]:
    """The feature map of the log, and how its features are stored."""
    document, width = manifest.feature_map, manifest.sparse_width
    own: Features | None = None if document is None else FeatureMap.from_document(document)
    if given is not None and (given != own or (width is not None and sparse is False)):
        _check_fields(table, given, folder)
        return given, RequestFields(given)
    if width is not None:
        return own, SparseLists(width)
    return own, NumberLists(table.select(pl.col("features").list.first().list.len().first()).collect().item())


def _check_lists(table: pl.LazyFrame, names: Iterable[str]) -> None:
    """Raise InvalidInput unless columns have an entry for each action of a row, with as many numbers in each row."""
    schema = table.collect_schema()
    for name in names:
        kind: Any = schema[name]
        inner = kind.inner if name == "features" else kind
        if not (isinstance(inner, pl.List) and inner.inner.is_numeric()):
            raise _damaged(f"its column {name!r} does not have a number for each action")
    wrong = [(pl.col(name).list.len() != pl.col("actions").list.len()).fill_null(True).any() for name in names]
    if "features" in names:
        widths = pl.col("features").explode().list.len()
        wrong.append((widths.min() != widths.max()).fill_null(True).alias("features "))
    found = table.select(wrong).collect(engine="streaming") if wrong else pl.DataFrame()
    for name in found.columns:
        if found[name].item():
            raise _damaged(f"its column {name.strip()!r} does not have a number for each action")


class ServiceExport(TableLog):
    """An exported log of the service. Rows have different arms, and each row names its arms."""

    folder: Path
    running: RunningPolicy | None
    """What decides in the loop; None in an export of another program."""


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
            f"{missing:,} of {rows:,} decisions are left out, because they have no {column}: none came, or "
            "its window was open at the export",
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
