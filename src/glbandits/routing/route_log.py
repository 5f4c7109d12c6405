"""The decisions of a router, and its log: one row for each, with its feedback."""

import logging
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from glbandits.common.atomic_files import atomic_path
from glbandits.common.errors import InvalidInput, value_text
from glbandits.common.extras import needed_for

PART = 1000
"""The number of rows of a file of the log."""
KEPT = 100 * PART
"""The number of rows that wait in memory while the log cannot be written. Older ones are lost."""
log = logging.getLogger(__name__)


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


class PendingDecisions:
    """The latest decisions, which accept feedback. Complete and older ones go to the log.

    The log has Parquet files of `PART` rows, each written atomically. Rows that are not yet written are lost if the
    process is killed. If a file cannot be written, a warning is logged, and the rows wait for the next file.

    Args:
        memory: the largest number of decisions that accept feedback.
        folder: where the log is written; None for no log.
    """

    def __init__(self, memory: int, folder: str | PathLike[str] | None) -> None:
        self.memory = memory
        self.events: OrderedDict[str, Event] = OrderedDict()
        self._folder = None if folder is None else Path(folder)
        self._rows: list[Event] = []
        if self._folder is not None:
            with needed_for("the log of a router", "lab"):
                import polars  # noqa: F401
            self._folder.mkdir(parents=True, exist_ok=True)

    def check_is_new(self, event_id: str) -> None:
        """Raise InvalidInput if the id is that of a decision which accepts feedback."""
        if event_id in self.events:
            raise InvalidInput(f"event_id must be new; got {value_text(event_id)}, which has been decided already")

    def add(self, event: Event) -> None:
        """Add a decision. The oldest one settles if there are more than `memory`."""
        self.events[event.event_id] = event
        if len(self.events) > self.memory:
            self.settle(next(iter(self.events)))

    def find(self, event_id: str) -> Event:
        """Return a decision. Raises InvalidInput if it accepts no feedback."""
        event = self.events.get(event_id) if isinstance(event_id, str) else None
        if event is None:
            raise InvalidInput(
                f"event_id must be one of the last {self.memory:,} decisions without complete feedback; got "
                f"{value_text(event_id)}"
            )
        return event

    def settle(self, event_id: str) -> None:
        """Accept no more feedback for a decision."""
        event = self.events.pop(event_id)
        if self._folder is not None:
            self._rows.append(event)
            if len(self._rows) % PART == 0:
                try:
                    self.write()
                except Exception as error:  # a full disk must not stop the router
                    log.warning("The log of the router could not be written: %s", error)
                    del self._rows[:-KEPT]

    def write(self) -> None:
        """Write the rows of settled decisions that are not yet in the log."""
        if self._rows and self._folder is not None:
            import polars

            kinds = {"quality": polars.Float64, "cost": polars.Float64}
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"routes-{time.time_ns()}-{secrets.token_hex(4)}.parquet"  # the clock may stand still
            with atomic_path(self._folder / name) as path:
                polars.DataFrame(self._rows, schema_overrides=kinds).write_parquet(path)
            self._rows.clear()
