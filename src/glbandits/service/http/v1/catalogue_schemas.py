"""Requests and responses about catalogues."""

from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from glbandits.service.http.v1.schemas import ApiStruct, Id

Version: TypeAlias = Annotated[int, Meta(ge=0)]


class Arm(ApiStruct, frozen=True, kw_only=True):
    """An arm of a catalogue."""

    id: Id
    features: list[float] | dict[str, Any]
    """Numbers, or an object with named fields. The model's feature map turns fields into numbers; without one they are
    hashed."""


class ArmsRequest(ApiStruct, frozen=True, kw_only=True):
    """Arms to add. They replace arms with the same ids."""

    arms: Annotated[list[Arm], Meta(min_length=1)]
    after: Version | None = None
    """The version of the catalogue that the client knows: 409 if there is a newer one. None: any version."""


class ArmsChange(ApiStruct, frozen=True, kw_only=True):
    """Arms to retire, and retired arms to restore with their features."""

    retire: tuple[Id, ...] = ()
    restore: tuple[Id, ...] = ()
    after: Version | None = None
    """As in `ArmsRequest`."""


class CatalogueVersion(ApiStruct, frozen=True, kw_only=True):
    """The version of a catalogue after a change. Other processes use it within about a second."""

    version: int
    """The number of changes of the catalogue so far."""


class CatalogueStatus(ApiStruct, frozen=True, kw_only=True):
    """The catalogue in the memory of this process."""

    version: int
    arms: int
    encoding: str | None
    """dense for numbers, json for named fields; None if the catalogue is empty."""
    features: int | None
    """The number of features of each arm without a context; None if the catalogue is empty."""
    memory: int
    """Approximate bytes of memory of the arms in this process."""


class ArmsPage(ApiStruct, frozen=True, kw_only=True):
    """A page of the arms that are not retired, the oldest first."""

    version: int
    arms: list[Arm]
    after: int | None
    """The parameter `after` for the next page; None if this is the last page."""


class CatalogueDecideRequest(ApiStruct, frozen=True, kw_only=True):
    """A request to choose an arm of the catalogue."""

    event_id: Id | None = None
    """The id of the decision, from which the draw is seeded. The same id again gets the same response. None: the server
    creates one."""
    only: Annotated[list[Id], Meta(min_length=1)] | None = None
    """Ids of the arms that may be chosen; None for all."""
    excluded: tuple[Id, ...] = ()
    """Ids of arms that must not be chosen. Unknown ids are ignored."""
    baseline: Id | None = None
    """Id of the arm to show without a model. The verdict compares with it; modes other than Online show it."""
    context: list[float] | dict[str, Any] | None = None
    """q numbers, if the arms have p numbers and the width of the loop is p + q + p q: see `cross_features`. Named
    fields, if the arms have named fields and the feature map of the model has columns for the context."""
    deferred: bool = False
    """Whether the decision is learned only if it is activated."""


class CatalogueDecided(ApiStruct, frozen=True, kw_only=True):
    """The chosen arm."""

    event_id: str
    id: str
    """Id of the arm to use."""
    probability: float
    catalogue_version: int
    model_version: str
    degraded: bool
    """The decision was not known to be durable when it was returned. After a crash its reward may be unknown."""
