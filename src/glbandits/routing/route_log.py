"""The log of a router: one row for each decision, with its feedback."""

import time
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from glbandits.common.atomic_files import atomic_path
from glbandits.common.extras import needed_for

PART = 1000
"""The number of rows of a file of the log."""


@dataclass(slots=True)
class Event:
    """A decision and its feedback. The fields are the columns of the log."""

    event_id: str
    timestamp: float
    """Seconds since 1970."""
    model: str
    probability: float
    drawn: bool
    """False if the session kept its model: such a decision says nothing about other routers."""
    models: list[str]
    """All models, in the order of the next two columns."""
    probabilities: list[float]
    """0 for a model that was not offered."""
    expected_costs: list[float]
    price: float
    """The quality that one unit of cost had to bring."""
    features: list[float]
    """Of the prompt, after a constant 1."""
    quality: float | None = None
    cost: float | None = None


class RouteLog:
    """Writes events to Parquet files in a folder, `PART` at a time.

    Files are written atomically. Events that are not yet written are lost if the process is killed.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        with needed_for("the log of a router", "lab"):
            import polars
        self._polars = polars
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._rows: list[Event] = []

    def add(self, event: Event) -> None:
        """Add an event that accepts no more feedback."""
        self._rows.append(event)
        if len(self._rows) >= PART:
            self.flush()

    def flush(self) -> None:
        """Write all events that were added."""
        if self._rows:
            kinds = {"quality": self._polars.Float64, "cost": self._polars.Float64}
            with atomic_path(self.folder / f"routes-{time.time_ns()}.parquet") as path:
                self._polars.DataFrame(self._rows, schema_overrides=kinds).write_parquet(path)
            self._rows.clear()
