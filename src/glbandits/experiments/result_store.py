"""The store of results: a folder of Parquet files that is only ever added to.

Each file holds some finished runs, a row each, and appears whole or not at all. So a command that was killed finds what
it had finished, several may write at once, and the files open in pandas, polars or anything that reads Parquet:

    polars.read_parquet("out/store/*.parquet")
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from glbandits.errors import GlbanditsError, InvalidInput
from glbandits.experiments.run_spec import RunSpec
from glbandits.records import Floats, Ints
from glbandits.version import __version__

SCHEMA: dict[str, Any] = {
    "key": pl.String,
    "policy": pl.String,
    "settings": pl.String,
    "environment": pl.String,
    "horizon": pl.Int64,
    "seed": pl.Int64,
    "luck": pl.Int64,
    "version": pl.String,
    "code": pl.String,
    "seconds": pl.Float64,
    "final_regret": pl.Float64,
    "rounds": pl.List(pl.Int64),
    "regret": pl.List(pl.Float64),
    "pulls": pl.List(pl.Int64),
}


@dataclass(frozen=True)
class FinishedRun:
    """A run that is done."""

    seconds: float
    """CPU seconds that the policy itself took."""
    rounds: Ints
    """The rounds at which regret was recorded, (points,)."""
    regret: Floats
    """Cumulative regret there."""
    pulls: Ints
    """How often each arm was pulled, by its index in the round."""


class ResultStore:
    """The runs in a folder.

    >>> import tempfile, pathlib
    >>> store = ResultStore(pathlib.Path(tempfile.mkdtemp()) / "store")
    >>> len(store)
    0
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._finished: dict[str, FinishedRun] = {}
        self._read: set[Path] = set()

    def __len__(self) -> int:
        self.refresh()
        return len(self._finished)

    def __contains__(self, spec: RunSpec) -> bool:
        return spec.key in self._finished

    def __getitem__(self, spec: RunSpec) -> FinishedRun:
        return self._finished[spec.key]

    def refresh(self) -> None:
        """Read the files that are new since the last time."""
        for path in sorted(self.folder.glob("*.parquet")):
            if path not in self._read:
                self._take(path)
                self._read.add(path)

    def add(self, runs: Sequence[tuple[RunSpec, FinishedRun]]) -> None:
        """Keep these runs, in one new file: all of them or none."""
        if not runs:
            return
        rows = [_row(spec, finished) for spec, finished in runs]
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{uuid.uuid4().hex}.parquet"
        half_written = path.with_suffix(".part")
        pl.DataFrame(rows, schema=SCHEMA, orient="row").write_parquet(half_written)
        half_written.replace(path)
        self._read.add(path)
        for spec, finished in runs:
            self._finished[spec.key] = finished

    def missing(self, specs: Iterable[RunSpec]) -> list[RunSpec]:
        """Those that were not run yet, each once."""
        self.refresh()
        unique = {spec.key: spec for spec in specs}
        return [spec for key, spec in unique.items() if key not in self._finished]

    def _take(self, path: Path) -> None:
        try:
            table = pl.read_parquet(path)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InvalidInput(
                f"{path} is not a readable result file; remove it to run again what it held: {error}"
            ) from None
        if table.schema != pl.Schema(SCHEMA):
            raise InvalidInput(
                f"{path} does not have the columns of a result file; remove it, or choose another folder"
            )
        for row in table.iter_rows(named=True):
            self._finished[row["key"]] = FinishedRun(
                seconds=row["seconds"],
                rounds=np.array(row["rounds"], dtype=np.int64),
                regret=np.array(row["regret"], dtype=np.float64),
                pulls=np.array(row["pulls"], dtype=np.int64),
            )


def _row(spec: RunSpec, finished: FinishedRun) -> list[object]:
    if finished.rounds[-1] != spec.horizon:
        raise GlbanditsError(f"a run of {spec.horizon} rounds must be recorded to its end; got {finished.rounds[-1]}")
    return [
        spec.key,
        spec.policy.name,
        spec.settings(),
        spec.problem.fingerprint,
        spec.horizon,
        spec.seed,
        spec.luck,
        __version__,
        spec.code,
        finished.seconds,
        float(finished.regret[-1]),
        finished.rounds.tolist(),
        finished.regret.tolist(),
        finished.pulls.tolist(),
    ]
