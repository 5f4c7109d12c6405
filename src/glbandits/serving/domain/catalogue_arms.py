"""Arms of a stored catalogue, requests to choose one of them, and what the log has of such a decision."""

from typing import Any

import msgspec


class CatalogueArm(msgspec.Struct, frozen=True):
    """An arm with features that never change. An arm that gets other features is retired, and another one is added."""

    number: int
    """Never used twice in a loop. Draws go through the arms in the order of their numbers."""
    id: str
    """Of the arms that are not retired, one has this id."""
    added: int
    """The first version of the catalogue that has the arm."""
    retired: int
    """The first later version that does not have it; 0 if the newest version has it."""
    encoding: str
    """dense: float64 numbers. json: an object."""
    features: bytes

    def is_in(self, version: int) -> bool:
        """Whether this version of the catalogue has the arm."""
        return self.added <= version and not 0 < self.retired <= version


class NewArm(msgspec.Struct, frozen=True):
    """An arm that is not in the store yet."""

    id: str
    encoding: str
    features: bytes


class CatalogueHead(msgspec.Struct, frozen=True):
    """The document of a catalogue. Its version is that of the catalogue."""

    next_number: int = 1
    whole_since: int = 0
    """The first version that the store can give again: retired arms of older ones were deleted."""


class CatalogueQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which arms may be chosen, and in which context."""

    only: tuple[str, ...] | None = None
    """Ids among which to choose; None for all."""
    excluded: tuple[str, ...] = ()
    """Ids that must not be chosen. Those that the catalogue does not have are ignored."""
    baseline: str | None = None
    """Id of the arm to show without a model. Modes other than Online need it."""
    context: tuple[float, ...] | dict[str, Any] | None = None
    """Numbers for arms of numbers, named fields for arms of named fields."""


class CatalogueRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the log has of a decision from a catalogue, beside the arms that matter."""

    version: int
    """Of the catalogue that was decided from."""
    arms: int
    """How many could be chosen."""
    highest: float
    """The largest probability of any of them."""
    question: CatalogueQuestion


class CatalogueRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to choose an arm of the catalogue."""

    event_id: str
    question: CatalogueQuestion
    deferred: bool = False
