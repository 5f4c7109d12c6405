"""Read samples of contexts: NumPy arrays, or tables with a row for each arm of each round."""

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import polars as pl

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput


def read_contexts(path: Path) -> Floats:
    """Read features (rounds, arms, dim) from .npy, .parquet or .csv.

    An array must have that shape. A table has a column `round`, and every other column is a feature; each round must
    have the same number of rows.
    """
    if path.suffix == ".npy":
        try:
            with path.open("rb") as file:
                loaded = np.load(file, allow_pickle=False)
        except (ValueError, TypeError, EOFError, BadZipFile) as error:
            raise InvalidInput(f"{path} is not an array of numbers: {error}") from None
        if not isinstance(loaded, np.ndarray):
            raise InvalidInput(f"{path} must contain one array, not an archive of arrays")
        sample = real_numbers(str(path), loaded)
        if sample.ndim != 3:
            raise InvalidInput(f"{path} must contain features of shape (rounds, arms, dim); got {sample.shape}")
        return sample
    if path.suffix not in (".parquet", ".csv"):
        raise InvalidInput(f"contexts are read from .npy, .parquet or .csv; got {path}")
    try:
        table = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"{path} cannot be read as a table: {error}") from None
    if "round" not in table.columns or len(table.columns) < 2:
        raise InvalidInput(f"{path} needs a column round and a column for each feature; got {', '.join(table.columns)}")
    text_columns = [name for name, kind in table.schema.items() if not kind.is_numeric()]
    if text_columns:
        raise InvalidInput(f"{path}: features must be numbers; these columns are not: {', '.join(text_columns)}")
    if table.is_empty():
        raise InvalidInput(f"{path} must have a row for each arm of each round; it has none")
    missing = int((~table["round"].cast(pl.Float64).is_finite()).fill_null(True).sum())
    if missing:
        raise InvalidInput(f"{path}: the column round must have a number in every row; {missing} rows have none")
    table = table.sort("round", maintain_order=True)
    sizes = table.group_by("round").len()["len"].unique().to_list()
    if len(sizes) != 1:
        raise InvalidInput(
            f"{path}: each round must have the same number of arms; got from {min(sizes)} to {max(sizes)}"
        )
    features = table.drop("round").to_numpy().astype(np.float64)
    return features.reshape(-1, sizes[0], features.shape[1])


def real_numbers(name: str, values: Any) -> Floats:
    """Convert values to float64.

    Raises:
        InvalidInput: for complex numbers, text and objects.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"{name} must contain real numbers; got an array of {array.dtype}")
    return array.astype(np.float64)
