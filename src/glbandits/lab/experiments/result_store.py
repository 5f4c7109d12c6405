"""The result store: an append-only folder of Parquet files.

Each file has one row for each of some finished runs, and is written atomically. Therefore a command that was killed
continues where it stopped, and several processes may write at once. They claim runs before they play them, and so share
the work. Any Parquet reader can open the files:

    polars.read_parquet("out/store/*.parquet")
"""

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from glbandits.common.arrays import Floats, Ints
from glbandits.common.atomic_files import atomic_path
from glbandits.common.errors import InvalidInput
from glbandits.common.version import __version__
from glbandits.lab.experiments.claims import Claims
from glbandits.lab.experiments.run_spec import RunSpec

SCHEMA: dict[str, Any] = {
    "key": pl.String,
    "policy": pl.String,
    "settings": pl.String,
    "environment": pl.String,
    "horizon": pl.Int64,
    "seed": pl.Int64,
    "noise_seed": pl.Int64,
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
    """The result of a run."""

    seconds: float
    """CPU seconds of the policy."""
    rounds: Ints
    """The rounds at which regret was recorded, (points,)."""
    regret: Floats
    """Cumulative regret there."""
    pulls: Ints
    """Number of pulls of each arm, by its index in the round."""


class ResultStore:
    """The runs in a folder, which may not exist yet.

    >>> import tempfile, pathlib
    >>> store = ResultStore(pathlib.Path(tempfile.mkdtemp()) / "store")
    >>> len(store)
    0
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._finished: dict[str, FinishedRun] = {}
        self._read_paths: set[Path] = set()
        self._claims, self._lock = Claims(folder / ".claims"), threading.RLock()

    def __len__(self) -> int:
        self.refresh()
        return len(self._finished)

    def __contains__(self, spec: RunSpec) -> bool:
        return spec.key in self._finished

    def __getitem__(self, spec: RunSpec) -> FinishedRun:
        return self._finished[spec.key]

    def refresh(self) -> None:
        """Read the files that were added since the last call."""
        with self._lock:
            for path in sorted(self.folder.glob("*.parquet")):
                if path not in self._read_paths:
                    self._read_file(path)
                    self._read_paths.add(path)

    @contextmanager
    def claiming(self) -> Iterator[Callable[[Iterable[RunSpec]], list[RunSpec]]]:
        """Yield a function that claims runs for this process, and returns those that it got.

        These are neither finished nor claimed by another living process. A claim ends when `add` gets the run, with
        the block, or with this process. After the block the function returns no runs.
        """
        is_open = True

        def claim(specs: Iterable[RunSpec]) -> list[RunSpec]:
            with self._lock:
                if not is_open:
                    return []
                with self._claims.of_others() as claimed:
                    self.refresh()  # after the claims were read: a run is stored before its claim ends
                    own = [spec for spec in specs if spec.key not in self._finished and spec.key not in claimed]
                    self._claims.add(spec.key for spec in own)
                return own

        try:
            yield claim
        finally:
            with self._lock:
                is_open = False
                self._claims.close()

    def add(self, runs: Sequence[tuple[RunSpec, FinishedRun]]) -> None:
        """Write these runs to one new file, atomically."""
        if not runs:
            return
        rows = [_row(spec, finished) for spec, finished in runs]
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{uuid.uuid4().hex}.parquet"
        with self._lock:
            self._read_paths.add(path)
            with atomic_path(path) as temporary:
                pl.DataFrame(rows, schema=SCHEMA, orient="row").write_parquet(temporary)
            self._finished |= {spec.key: finished for spec, finished in runs}
            self._claims.remove([spec.key for spec, _ in runs])

    def missing(self, specs: Iterable[RunSpec]) -> list[RunSpec]:
        """Return the specs that have no result yet, without duplicates."""
        self.refresh()
        unique = {spec.key: spec for spec in specs}
        return [spec for key, spec in unique.items() if key not in self._finished]

    def _read_file(self, path: Path) -> None:
        try:
            table = pl.read_parquet(path)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InvalidInput(f"{path} is not a readable result file: {error}. Remove it to repeat its runs") from None
        if table.schema != pl.Schema(SCHEMA):
            raise InvalidInput(
                f"{path} does not have the columns of a result file. Remove it, or choose another folder"
            )
        for row in table.iter_rows(named=True):
            self._finished[row["key"]] = FinishedRun(
                seconds=row["seconds"],
                rounds=np.array(row["rounds"], dtype=np.int64),
                regret=np.array(row["regret"], dtype=np.float64),
                pulls=np.array(row["pulls"], dtype=np.int64),
            )


def _row(spec: RunSpec, finished: FinishedRun) -> list[object]:
    return [
        spec.key,
        spec.policy.name,
        spec.settings(),
        spec.problem.text,
        spec.horizon,
        spec.seed,
        spec.noise_seed,
        __version__,
        spec.code,
        finished.seconds,
        float(finished.regret[-1]),
        finished.rounds.tolist(),
        finished.regret.tolist(),
        finished.pulls.tolist(),
    ]
