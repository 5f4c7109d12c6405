"""Deletes decisions that are older than the retention of their loop, after an announcement."""

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import msgspec

from glbandits.service.domain.loop_config import SECOND
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.service import Service

log = logging.getLogger(__name__)

RETENTION = "retention"
"""The kind of the document of an announcement. Only its latest version is kept."""
HOUR = 60 * 60 * SECOND
DAY = 24 * HOUR
NOTICE_HOURS = 6
"""Time from the announcement of a deletion until it may happen."""


class Announcement(msgspec.Struct, frozen=True):
    """What a look has found to be too old."""

    through: int
    """Sequence number of the last decision that was too old."""


class Retention:
    """Deletes decisions older than `retention_days` of their loop.

    A wrong clock deletes nothing: a decision is deleted if two looks found it too old, at least `NOTICE_HOURS` apart.
    The first one announces it in the store. Decisions that the model has not learned stay, even if the retention is
    shorter than the reward window.

    Args:
        service: has the loops.
        monotonic: seconds of a clock that never steps.
    """

    def __init__(self, service: Service, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._service, self._monotonic = service, monotonic
        self._announced: dict[tuple[str, int], float] = {}
        """When this process made an announcement, by loop and version."""

    def look(self) -> None:
        """Delete what was announced early enough, and announce what is too old."""
        with ExitStack() as calls:  # calls all, also after an error, and raises it at the end
            for loop in self._service.loops.values():
                if loop.configuration.retention_days > 0:
                    calls.callback(partial(self._look, loop))

    def _look(self, loop: Loop) -> None:
        store, now, days = self._service.store, self._service.clock(), loop.configuration.retention_days
        before = now - days * DAY
        through = store.last_sequence(loop.name, before=before)
        document = store.latest_document(loop.name, RETENTION)
        if document is not None and document.timestamp <= now:
            since = self._announced.get((loop.name, document.version), -float("inf"))
            hours = min((now - document.timestamp) / HOUR, (self._monotonic() - since) / 3600)
            if hours < NOTICE_HOURS:
                return
            announced = msgspec.json.decode(document.body, type=Announcement)
            loop.delete_log(before, up_to=min(announced.through, through))
        version = 0 if document is None else document.version
        if through:
            self._announce(loop, Announcement(through), version, now)

    def _announce(self, loop: Loop, announcement: Announcement, version: int, now: int) -> None:
        if not self._service.store.save_documents(
            loop.name,
            now,
            {RETENTION: msgspec.json.encode(announcement)},
            expected_versions={RETENTION: version},
            latest_only=[RETENTION],
        ):
            return  # another process was first
        self._announced = {key: at for key, at in self._announced.items() if key[0] != loop.name}
        self._announced[loop.name, version + 1] = self._monotonic()
        log.info(
            "Loop %s: decisions up to number %d are older than %d days. They are deleted after %d hours, if they are "
            "too old then too.",
            *(loop.name, announcement.through, loop.configuration.retention_days, NOTICE_HOURS),
        )
