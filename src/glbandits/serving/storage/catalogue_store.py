"""Catalogues in a store: every arm with the versions that have it, so that each version can be read again."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

import msgspec

from glbandits.serving.domain.catalogue_arms import CatalogueArm, CatalogueHead, NewArm

Rows: TypeAlias = Iterable[tuple[Any, ...]]
CATALOGUE = "catalogue"
"""The kind of the document that has the version of a catalogue."""
AT_ONCE = 64
"""Arms of a statement."""
Item = TypeVar("Item")
COLUMNS = "number, arm_id, added, retired, encoding, features"


class CatalogueStore(ABC):
    """The catalogues of any number of loops. The SQL is that of PostgreSQL; `_execute` of a store translates it."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Any]:
        """A connection in a transaction that reads. All its statements see the same moment."""

    @abstractmethod
    def _changing(self, table: str, /) -> AbstractContextManager[Any]:
        """A connection in a transaction that writes: all of it, or nothing. Others wait to write to the table."""

    @abstractmethod
    def _execute(self, connection: Any, statement: str, *parameters: object) -> Rows:
        """Execute a statement of this class. The rows must be read before the transaction ends."""

    def change_catalogue(
        self, loop: str, timestamp: int, *, after: int, add: Sequence[NewArm], retire: Collection[int]
    ) -> int | None:
        """Add arms, and retire others by number, in one transaction. Returns the new version.

        `after` is the version that the caller knows, 0 if there is none. If it is not the newest, nothing is written,
        and the answer is None.
        """
        with self._changing("documents") as connection:
            version, head = self._head(connection, loop)
            if version != after:
                return None
            version += 1
            for numbers in _parts(list(retire)):
                marks = ", ".join(["%s"] * len(numbers))
                self._execute(
                    connection,
                    "UPDATE catalogue_arms SET retired = %s, retired_at = %s, changed = %s"
                    f" WHERE loop_name = %s AND retired = 0 AND number IN ({marks})",
                    *(version, timestamp, version, loop, *numbers),
                )
            rows = [
                (loop, number, arm.id, version, 0, 0, version, arm.encoding, arm.features)
                for number, arm in enumerate(add, head.next_number)
            ]
            for some in _parts(rows):
                values = ", ".join(["(%s, %s, %s, %s, %s, %s, %s, %s, %s)"] * len(some))
                self._execute(
                    connection,
                    f"INSERT INTO catalogue_arms VALUES {values}",
                    *(value for row in some for value in row),
                )
            changed = msgspec.structs.replace(head, next_number=head.next_number + len(rows))
            self._save_head(connection, loop, version, timestamp, changed)
        return version

    def delete_catalogue(self, loop: str, timestamp: int) -> int:
        """Delete all arms, and those that were retired. Versions and numbers go on. Returns the new version."""
        return self._delete_arms(loop, timestamp, "TRUE")

    def prune_catalogue(self, loop: str, timestamp: int, *, before: int | None = None) -> None:
        """Delete the arms that were retired before a time, or all that were retired."""
        with self._reading() as connection:
            query = "SELECT 1 FROM catalogue_arms WHERE loop_name = %s AND retired_at BETWEEN 1 AND %s LIMIT 1"
            if not list(self._execute(connection, query, loop, before or timestamp)):
                return
        self._delete_arms(loop, timestamp, "retired_at BETWEEN 1 AND %s", before or timestamp)

    def _delete_arms(self, loop: str, timestamp: int, condition: str, *parameters: object) -> int:
        with self._changing("documents") as connection:
            version, head = self._head(connection, loop)
            where = f"FROM catalogue_arms WHERE loop_name = %s AND {condition}"
            ((last, live),) = self._execute(connection, f"SELECT max(retired), min(retired) {where}", loop, *parameters)
            if last is None:
                return version
            self._execute(connection, f"DELETE {where}", loop, *parameters)
            # A version is whole if none of its arms is deleted: all that were live end with the new version.
            whole_since = version + 1 if live == 0 else last
            head = msgspec.structs.replace(head, whole_since=max(head.whole_since, whole_since))
            self._save_head(connection, loop, version + 1, timestamp, head)
        return version + 1

    def catalogue_head(self, loop: str) -> tuple[int, CatalogueHead]:
        """Return the newest version of a catalogue and its document; version 0 if there was never an arm."""
        with self._reading() as connection:
            return self._head(connection, loop)

    def catalogue_changes(self, loop: str, after: int) -> tuple[int, CatalogueHead, list[CatalogueArm]]:
        """Return the newest version, its document, and the arms that were added or retired after a version."""
        with self._reading() as connection:
            version, head = self._head(connection, loop)
            arms = [] if version == after else self._arms(connection, loop, "changed > %s ORDER BY number", after)
            return version, head, arms

    def live_arms(self, loop: str, after: int = 0, limit: int | None = None) -> tuple[int, list[CatalogueArm]]:
        """Return the newest version, and its arms with numbers after one, in order, at most `limit`."""
        condition = "retired = 0 AND number > %s ORDER BY number"
        with self._reading() as connection:
            version, _ = self._head(connection, loop)
            if limit is None:
                return version, self._arms(connection, loop, condition, after)
            return version, self._arms(connection, loop, f"{condition} LIMIT %s", after, limit)

    def arms_of_ids(self, loop: str, ids: Collection[str]) -> dict[str, CatalogueArm]:
        """Return the newest arm of each id, live or retired. Ids that are unknown are left out."""
        with self._reading() as connection:
            return {
                arm.id: arm
                for some in _parts(list(ids))
                for arm in self._arms(
                    connection, loop, f"arm_id IN ({', '.join(['%s'] * len(some))}) ORDER BY number", *some
                )
            }

    def _arms(self, connection: Any, loop: str, condition: str, *parameters: object) -> list[CatalogueArm]:
        query = f"SELECT {COLUMNS} FROM catalogue_arms WHERE loop_name = %s AND {condition}"
        return [CatalogueArm(*row) for row in self._execute(connection, query, loop, *parameters)]

    def _head(self, connection: Any, loop: str) -> tuple[int, CatalogueHead]:
        query = "SELECT version, body FROM documents WHERE loop_name = %s AND kind = %s ORDER BY version DESC LIMIT 1"
        for version, body in self._execute(connection, query, loop, CATALOGUE):
            return version, msgspec.json.decode(body, type=CatalogueHead)
        return 0, CatalogueHead()

    def _save_head(self, connection: Any, loop: str, version: int, timestamp: int, head: CatalogueHead) -> None:
        """Replace the document: of its versions only the newest is read."""
        self._execute(connection, "DELETE FROM documents WHERE loop_name = %s AND kind = %s", loop, CATALOGUE)
        row = (loop, CATALOGUE, version, timestamp, msgspec.json.encode(head))
        self._execute(connection, "INSERT INTO documents VALUES (%s, %s, %s, %s, %s)", *row)


def _parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[first : first + AT_ONCE] for first in range(0, len(items), AT_ONCE))
