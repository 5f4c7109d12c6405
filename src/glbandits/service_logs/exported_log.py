"""Open exported logs: those of dense loops as tables, those of sparse loops as sparse rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from glbandits.errors import InvalidInput
from glbandits.evaluation import Columns, Log, LoggedData, SparseArms, read_parquet
from glbandits.evaluation.log_readers.column_values import cluster_ids
from glbandits.evaluation.log_readers.columns import check_present
from glbandits.evaluation.logs.logged_data import BLOCK
from glbandits.maths.links import Link
from glbandits.maths.sparse_rows import SparseRows
from glbandits.service_logs.parquet_export import MANIFEST, Manifest


def open_export(folder: str | PathLike[str], link: str | Link = "identity", *, cluster: str | None = None) -> Log:
    """Open the log that `export_parquet` wrote to a folder. Reading holds one file at a time in memory.

    Args:
        folder: the folder of the export.
        link: the link of the rewards.
        cluster: the column of the clusters, such as "event_id".

    Raises InvalidInput if the folder has no complete export.
    """
    try:
        manifest = msgspec.json.decode((Path(folder) / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"{folder} has no complete export of `glb export` ({error}). Export the log again") from None
    if manifest.sparse_width is None:
        return read_parquet(Path(folder), Columns(features="features", cluster=cluster), link=link)
    files = tuple(Path(folder) / file.name for file in manifest.files)
    return SparseExport(files, manifest.sparse_width, manifest.rows, link, cluster)


@dataclass(frozen=True, eq=False)
class SparseExport:
    """The exported log of a sparse loop. Reading holds one file at a time in memory."""

    files: tuple[Path, ...]
    dim: int
    rows: int
    link: str | Link
    cluster: str | None = None

    arm_names = None
    feature_map = None
    sparse = True

    def __len__(self) -> int:
        return self.rows

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        """Yield all rows in order, in blocks of at most `size` rows."""
        for file in self.files:
            yield from self._read(pl.read_parquet(file)).blocks(size)

    def _read(self, table: pl.DataFrame) -> LoggedData:
        if self.cluster is not None:
            check_present([self.cluster], table.columns)
        counts = table["probabilities"].list.len().to_numpy().astype(np.int64)
        sizes = table["feature_counts"].explode().to_numpy()
        arms = SparseRows(
            np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)]),
            table["feature_indices"].explode().drop_nulls().to_numpy(),
            table["feature_values"].explode().drop_nulls().to_numpy(),
        )
        probabilities = np.zeros((len(counts), counts.max()))
        probabilities[np.arange(counts.max()) < counts[:, np.newaxis]] = table["probabilities"].explode().to_numpy()
        return LoggedData(
            chosen=table["arm"].to_numpy(),
            rewards=table["reward"].to_numpy(),
            propensities=table["propensity"].to_numpy(),
            probabilities=probabilities,
            arms=SparseArms(arms, counts, dim=self.dim),
            clusters=None if self.cluster is None else cluster_ids(table[self.cluster]),
            link=self.link,
        )
