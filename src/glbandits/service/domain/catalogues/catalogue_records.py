"""Arms of a stored catalogue, and requests and log records of decisions among them."""

from typing import Any

import msgspec


class CatalogueArm(msgspec.Struct, frozen=True):
    """An arm.

    Its features never change: to change them, the arm is retired and another one is added.
    """

    number: int
    """Unique in a loop, also among deleted arms. Draws use the arms in the order of their numbers."""
    id: str
    """Unique among the arms that are not retired."""
    added: int
    """The first version of the catalogue that has the arm."""
    retired: int
    """The first later version without the arm; 0 if the newest version has it."""
    encoding: str
    """dense: float64 numbers. json: an object."""
    features: bytes

    def is_in(self, version: int) -> bool:
        """Return whether this version of the catalogue has the arm."""
        return self.added <= version and not 0 < self.retired <= version


class NewArm(msgspec.Struct, frozen=True):
    """An arm that is not in the store yet."""

    id: str
    encoding: str
    features: bytes


class CatalogueHead(msgspec.Struct, frozen=True):
    """The document of a catalogue in the store.

    The version of the document is that of the catalogue.
    """

    next_number: int = 1
    """The number of the next new arm."""
    complete_since: int = msgspec.field(name="whole_since", default=0)
    """The oldest complete version. Retired arms of older versions were deleted. The encoded name is that of older
    versions of the package."""


class CatalogueQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The arms that may be chosen, and the context."""

    only: tuple[str, ...] | None = None
    """Ids of the arms that may be chosen; None for all."""
    excluded: tuple[str, ...] = ()
    """Ids of arms that must not be chosen. Unknown ids are ignored."""
    baseline: str | None = None
    """Id of the arm to show without a model. Modes other than Online need it."""
    context: tuple[float, ...] | dict[str, Any] | None = None
    """Numbers for arms of numbers, named fields for arms of named fields."""


class CatalogueRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The catalogue of a logged decision.

    `Decision.actions` has only the drawn arm and the baseline.
    """

    version: int
    """The version of the catalogue."""
    arms: int
    """The number of arms that could be chosen."""
    highest: float
    """The largest probability of an arm."""
    query: CatalogueQuery = msgspec.field(name="question")
    """The encoded name is that of older versions."""


class CatalogueRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to choose an arm of the catalogue."""

    event_id: str
    query: CatalogueQuery
    deferred: bool = False
