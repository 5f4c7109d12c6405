"""Catalogues in a store.

Every arm has the versions in which it was added and retired, so all versions can be read.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

import msgspec

from glbandits.service.domain.catalogues.catalogue_records import CatalogueArm, CatalogueHead, NewArm

Rows: TypeAlias = Iterable[tuple[Any, ...]]
CATALOGUE = "catalogue"
"""The kind of the document with the version of a catalogue."""
ARMS_PER_STATEMENT = 64
Item = TypeVar("Item")
COLUMNS = "number, arm_id, added, retired, encoding, features"


class CatalogueStore(ABC):
    """The catalogues of any number of loops, as a base class of event stores."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Any]:
        """A connection in a read transaction. All its statements see the same state of the store."""

    @abstractmethod
    def _changing(self, table: str, /) -> AbstractContextManager[Any]:
        """A connection in a write transaction. Others wait until it ends to write to the table."""

    @abstractmethod
    def _execute(self, connection: Any, statement: str, *parameters: object) -> Rows:
        """Execute a statement in the dialect of PostgreSQL.

        Read the rows before the transaction ends.
        """

    def change_catalogue(
        self, loop_name: str, timestamp: int, *, expected_version: int, add: Sequence[NewArm], retire: Collection[int]
    ) -> int | None:
        """Add arms, and retire others by number, in one transaction. Returns the new version.

        `expected_version` is the newest version that the caller knows, 0 if there is none. If there is another one,
        nothing is written, and None is returned.
        """
        with self._changing("documents") as connection:
            version, head = self._head(connection, loop_name)
            if version != expected_version:
                return None
            version += 1
            for numbers in _split(list(retire)):
                marks = ", ".join(["%s"] * len(numbers))
                self._execute(
                    connection,
                    "UPDATE catalogue_arms SET retired = %s, retired_at = %s, changed = %s"
                    f" WHERE loop_name = %s AND retired = 0 AND number IN ({marks})",
                    *(version, timestamp, version, loop_name, *numbers),
                )
            rows = [
                (loop_name, number, arm.id, version, 0, 0, version, arm.encoding, arm.features)
                for number, arm in enumerate(add, head.next_number)
            ]
            for part in _split(rows):
                values = ", ".join(["(%s, %s, %s, %s, %s, %s, %s, %s, %s)"] * len(part))
                self._execute(
                    connection,
                    f"INSERT INTO catalogue_arms VALUES {values}",
                    *(value for row in part for value in row),
                )
            changed = msgspec.structs.replace(head, next_number=head.next_number + len(rows))
            self._save_head(connection, loop_name, version, timestamp, changed)
        return version

    def delete_catalogue(self, loop_name: str, timestamp: int) -> int:
        """Delete all arms, also retired ones. Returns the new version.

        Versions and numbers are not reused.
        """
        return self._delete_arms(loop_name, timestamp, "TRUE")

    def prune_catalogue(self, loop_name: str, timestamp: int, *, before: int | None = None) -> None:
        """Delete the arms that were retired before a time, or all retired arms."""
        with self._reading() as connection:
            query = "SELECT 1 FROM catalogue_arms WHERE loop_name = %s AND retired_at BETWEEN 1 AND %s LIMIT 1"
            if not list(self._execute(connection, query, loop_name, before or timestamp)):
                return
        self._delete_arms(loop_name, timestamp, "retired_at BETWEEN 1 AND %s", before or timestamp)

    def _delete_arms(self, loop_name: str, timestamp: int, condition: str, *parameters: object) -> int:
        with self._changing("documents") as connection:
            version, head = self._head(connection, loop_name)
            where = f"FROM catalogue_arms WHERE loop_name = %s AND {condition}"
            ((last_retired, first_retired),) = self._execute(
                connection, f"SELECT max(retired), min(retired) {where}", loop_name, *parameters
            )
            if last_retired is None:  # no arm fits the condition
                return version
            self._execute(connection, f"DELETE {where}", loop_name, *parameters)
            # A version is complete if none of its arms is deleted. A live arm (retired is 0) ends with the new version.
            complete_since = version + 1 if first_retired == 0 else last_retired
            head = msgspec.structs.replace(head, complete_since=max(head.complete_since, complete_since))
            self._save_head(connection, loop_name, version + 1, timestamp, head)
        return version + 1

    def catalogue_head(self, loop_name: str) -> tuple[int, CatalogueHead]:
        """Return the newest version of a catalogue and its document; 0 if it never had an arm."""
        with self._reading() as connection:
            return self._head(connection, loop_name)

    def catalogue_changes(self, loop_name: str, after: int) -> tuple[int, CatalogueHead, list[CatalogueArm]]:
        """Return the newest version, its document, and the arms changed after a version."""
        with self._reading() as connection:
            version, head = self._head(connection, loop_name)
            arms = [] if version == after else self._arms(connection, loop_name, "changed > %s ORDER BY number", after)
            return version, head, arms

    def live_arms(self, loop_name: str, after: int = 0, limit: int | None = None) -> tuple[int, list[CatalogueArm]]:
        """Return the newest version, and at most `limit` arms with numbers above `after`."""
        condition = "retired = 0 AND number > %s ORDER BY number"
        with self._reading() as connection:
            version, _ = self._head(connection, loop_name)
            if limit is None:
                return version, self._arms(connection, loop_name, condition, after)
            return version, self._arms(connection, loop_name, f"{condition} LIMIT %s", after, limit)

    def arms_of_ids(self, loop_name: str, ids: Collection[str]) -> dict[str, CatalogueArm]:
        """Return the newest arm of each id, live or retired. Unknown ids are left out."""
        with self._reading() as connection:
            return {
                arm.id: arm
                for part in _split(list(ids))
                for arm in self._arms(
                    connection, loop_name, f"arm_id IN ({', '.join(['%s'] * len(part))}) ORDER BY number", *part
                )
            }

    def _arms(self, connection: Any, loop_name: str, condition: str, *parameters: object) -> list[CatalogueArm]:
        query = f"SELECT {COLUMNS} FROM catalogue_arms WHERE loop_name = %s AND {condition}"
        return [CatalogueArm(*row) for row in self._execute(connection, query, loop_name, *parameters)]

    def _head(self, connection: Any, loop_name: str) -> tuple[int, CatalogueHead]:
        query = "SELECT version, body FROM documents WHERE loop_name = %s AND kind = %s ORDER BY version DESC LIMIT 1"
        for version, body in self._execute(connection, query, loop_name, CATALOGUE):
            return version, msgspec.json.decode(body, type=CatalogueHead)
        return 0, CatalogueHead()

    def _save_head(self, connection: Any, loop_name: str, version: int, timestamp: int, head: CatalogueHead) -> None:
        """Replace the document, because only the newest version is ever read."""
        self._execute(connection, "DELETE FROM documents WHERE loop_name = %s AND kind = %s", loop_name, CATALOGUE)
        row = (loop_name, CATALOGUE, version, timestamp, msgspec.json.encode(head))
        self._execute(connection, "INSERT INTO documents VALUES (%s, %s, %s, %s, %s)", *row)


def _split(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[first : first + ARMS_PER_STATEMENT] for first in range(0, len(items), ARMS_PER_STATEMENT))
