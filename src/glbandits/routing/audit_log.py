"""RoutingLog: the decisions of a router with their feedback, as logs that can be evaluated."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.common.errors import InvalidInput, value_text
from glbandits.common.export_manifest import METRIC
from glbandits.evaluation import CrossedArms, FixedArms, LoggedData
from glbandits.evaluation.readers.frames import convert_polars_errors
from glbandits.evaluation.readers.service_export import UNDRAWN, is_export
from glbandits.evaluation.readers.table_files import files_of

COST = f"{METRIC}cost"
"""The column of an export with the cost of a decision."""
COLUMNS = ("timestamp", "model", "drawn", "models", "probabilities", "features", "quality", "cost")


@dataclass(frozen=True)
class RoutingLog:
    """Decisions with their feedback, in the order of their time. The arms are the models, by name."""

    cost: LoggedData
    """The rewards are costs."""
    quality: LoggedData | None
    """The same decisions with quality as reward; None if the log has no quality."""
    notes: tuple[str, ...] = ()
    """What was left out, and why."""

    @property
    def measures(self) -> dict[str, LoggedData]:
        """The logs by the name of their reward."""
        return {"cost": self.cost} if self.quality is None else {"quality": self.quality, "cost": self.cost}


def routing_log(
    models: Sequence[str],
    chosen: Ints,
    costs: Floats,
    quality: Floats | None,
    *,
    contexts: Floats | None,
    probabilities: Floats,
    notes: Sequence[str],
) -> RoutingLog:
    """Return a log in memory. `contexts` are (n, p), or None if there are none."""
    for name, values, most in (("cost", costs, np.inf), ("quality", np.zeros(1) if quality is None else quality, 1.0)):
        wrong = ~((values >= 0.0) & (values <= most))
        if wrong.any():
            bounds = "at least 0" if most == np.inf else "between 0 and 1"
            raise InvalidInput(f"{name} must be {bounds} in all rows; got {values[np.argmax(wrong)]:g}")
    arms = np.eye(len(models))
    cost = LoggedData(
        chosen=chosen,
        rewards=costs,
        probabilities=probabilities,
        arms=FixedArms(arms, len(chosen)) if contexts is None else CrossedArms(contexts, arms),
        arm_names=tuple(models),
        link="log",
    )
    scored = None if quality is None else replace(cost, rewards=quality, link="auto")
    return RoutingLog(cost, scored, tuple(notes))


def read_routes(source: str | PathLike[str]) -> RoutingLog:
    """Read the log of a `PromptRouter`: its folder, or one of the Parquet files in it.

    The folder of an export of the service is the log of a loop that routes: rewards are the quality, and the metric
    "cost" is the cost. The numbers in the context of the requests are the features of the prompts.

    Leaves out decisions of sessions that kept their model, and decisions without complete feedback. If no decision has
    a quality, the log has costs only.
    """
    with convert_polars_errors():
        frame = _of_export(Path(source)) if is_export(Path(source)) else _of_router(source)
        frame = frame.sort("timestamp", maintain_order=True)
        drawn = frame.filter("drawn").with_columns(pl.col("quality", "cost").cast(pl.Float64).fill_nan(None))
        needed = ["cost"] if drawn["quality"].is_null().all() else ["quality", "cost"]
        rows = drawn.drop_nulls(needed)
        notes = _left_out(len(frame) - len(drawn), len(drawn) - len(rows), needed)
        check_rows(len(rows), notes)
        names = rows["models"].explode().unique(maintain_order=True).to_list()
        probabilities = _probabilities(rows, names)
        offered: Bools = np.asarray(probabilities.any(axis=0))
        if not offered.all():
            notes.append(f"the log never offered {', '.join(compress(names, ~offered))}, so it has no evidence on that")
        names, probabilities = list(compress(names, offered)), probabilities[:, offered]
        wrong = rows.filter(~pl.col("model").is_in(names))["model"]
        if len(wrong):
            raise InvalidInput(f"model must be one that was offered in some row; got {value_text(wrong[0])}")
        lengths = rows["features"].list.len().unique().sort().to_list()
        if len(lengths) > 1:
            raise InvalidInput(
                f"features must be as many in all rows; got {lengths[0]} and {lengths[-1]}. Audit the log of one router"
            )
        features = np.array(rows["features"].to_list(), dtype=float)
        return routing_log(
            names,
            rows["model"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy(),
            rows["cost"].to_numpy(),
            rows["quality"].to_numpy() if "quality" in needed else None,
            contexts=features[:, 1:] if features.ndim == 2 and features.shape[1] > 1 else None,
            probabilities=probabilities,
            notes=notes,
        )


def _of_router(source: str | PathLike[str]) -> pl.DataFrame:
    files = files_of(source, "parquet")
    for file in files:
        missing = [name for name in COLUMNS if name not in pl.read_parquet_schema(file)]
        if missing:
            raise InvalidInput(
                f"{file.name} must be a file that PromptRouter(log=FOLDER) has written; it has no column "
                f"{', '.join(missing)}"
            )
    return pl.concat([pl.read_parquet(file, columns=[*COLUMNS]) for file in files], how="vertical_relaxed")


def _of_export(folder: Path) -> pl.DataFrame:
    """Return an export of the service with the columns of a router's log."""
    frame = pl.concat([pl.read_parquet(file) for file in files_of(folder, "parquet")], how="diagonal_relaxed")
    if COST not in frame.columns:
        raise InvalidInput(
            f"{folder} must have the column {COST} to be audited. Declare the metric cost for the loop that routes"
        )
    fields = pl.col("context") if "context" in frame.columns else pl.lit(None, dtype=pl.String)
    return frame.select(
        pl.col("at").alias("timestamp"),
        pl.col("actions").list.get(pl.col("arm")).alias("model"),
        UNDRAWN.is_null().alias("drawn"),
        pl.col("actions").alias("models"),
        "probabilities",
        fields.fill_null("[]").map_elements(numbers_of, return_dtype=pl.List(pl.Float64)).alias("features"),
        pl.col("reward").alias("quality"),
        pl.col(COST).alias("cost"),
    )


def numbers_of(context: str) -> list[float]:
    """Return a constant and the numbers in the fields of a request, whose names do not begin with "_"."""
    given = json.loads(context)
    numbers = [1.0]
    for fields in given if isinstance(given, list) else [given]:
        for name in sorted(name for name in fields if not name.startswith("_")):
            values = fields[name] if isinstance(fields[name], list) else [fields[name]]
            numbers.extend(float(value) for value in values if isinstance(value, int | float))
    return numbers


def check_rows(rows: int, notes: Sequence[str]) -> None:
    """Raise InvalidInput if no row is left. The notes say what was left out."""
    if not rows:
        raise InvalidInput(". ".join(["the log has no decision with complete feedback to audit", *notes]))


def _left_out(kept: int, incomplete: int, needed: Sequence[str]) -> list[str]:
    notes = []
    if kept:
        notes.append(
            f"{kept:,} decisions are left out because a session kept its model, which says nothing about other routers"
        )
    if incomplete:
        notes.append(f"{incomplete:,} decisions are left out because feedback is missing ({' or '.join(needed)})")
    return notes


def _probabilities(rows: pl.DataFrame, names: Sequence[str]) -> Floats:
    """Return the probability of each model in each row, 0 for a model that the router did not have yet."""
    probabilities = np.zeros((len(rows), len(names)))
    long = rows.select("models", "probabilities").with_row_index("row").explode("models", "probabilities")
    columns: Any = long["models"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy()
    probabilities[long["row"].to_numpy(), columns] = long["probabilities"].to_numpy()
    return probabilities
