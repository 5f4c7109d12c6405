"""Read logs in the Open Bandit format (Saito et al., 2021)."""

from dataclasses import replace
from os import PathLike
from pathlib import Path

import polars as pl

from glbandits.common.errors import InvalidInput, check_int
from glbandits.evaluation.readers.columns import EACH_ARM, Columns
from glbandits.evaluation.readers.csv_files import scan_csv
from glbandits.evaluation.readers.table_log import TableLog, open_table
from glbandits.features.table_columns import check_present
from glbandits.maths.links import Link

ITEMS = "item_context.csv"
AFFINITY = f"user-item_affinity_{EACH_ARM}"
USER = ("user_feature_0", "user_feature_1", "user_feature_2", "user_feature_3")
POSITIONS = 3
"""Number of positions on the page in which an item was shown."""


def read_open_bandit(
    folder: str | PathLike[str],
    *,
    position: int | None = None,
    link: str | Link = "logistic",
) -> TableLog:
    """Read a folder in the Open Bandit format.

    It has a file of rows, such as men.csv, and item_context.csv.

    The arms are all items of item_context.csv, with its features. The context has four user features, and the affinity
    of the user to each item if the file has it. The reward is the click. The propensity in the file is that of the item
    given its position, so rows of all positions can be used together. They are in the order of `timestamp`.

    Args:
        folder: for example open_bandit_dataset/random/men.
        position: read only rows of this position: 1 (left), 2 (middle) or 3 (right).
        link: defines the valid rewards.
    """
    rows, items = _files(Path(folder).absolute())
    columns = Columns(
        arm="item_id",
        reward="click",
        propensity="propensity_score",
        context=USER,
        per_arm=(AFFINITY,),
        probabilities=None,
        time="timestamp",
    )
    table, arms = scan_csv([rows], columns), pl.read_csv(items, infer_schema_length=None)
    names = table.collect_schema().names()
    advice = "For other tables use read_csv, with the names of their columns"
    check_present([*columns.single, "position"], names, rows.name, advice=advice, field=None)
    check_present(["item_id"], arms.columns, items.name, advice=advice, field=None)
    if position is not None:
        table = table.filter(pl.col("position") == check_int("position", position, at_least=1, at_most=POSITIONS))
    if not any(name.startswith(AFFINITY.removesuffix(EACH_ARM)) for name in names):
        columns = replace(columns, per_arm=())
    features = arms.select("item_id", "^item_feature_.*$")
    return open_table(table, columns, arm_table=features, link=link, crosses=())


def is_open_bandit(folder: Path) -> bool:
    """Whether a folder has the file of items of this format."""
    return (folder / ITEMS).is_file()


def _files(folder: Path) -> tuple[Path, Path]:
    others = sorted(path for path in folder.glob("*.csv") if path.name != ITEMS)
    if not is_open_bandit(folder) or len(others) != 1:
        present = (
            ", ".join(sorted(path.name for path in folder.glob("*"))[:20]) if folder.is_dir() else "no such folder"
        )
        raise InvalidInput(
            f"{folder} must be a folder with {ITEMS} and one file of rows, such as men.csv; found: "
            f"{present or 'nothing'}"
        )
    return others[0], folder / ITEMS
