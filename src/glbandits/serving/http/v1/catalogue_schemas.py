"""Catalogues over the wire, as types."""

from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from glbandits.serving.http.v1.schemas import Id, Wire

Version: TypeAlias = Annotated[int, Meta(ge=0)]


class Arm(Wire, frozen=True, kw_only=True):
    """An arm of a catalogue."""

    id: Id
    features: list[float] | dict[str, Any]
    """Numbers; or named fields, which the feature map of the model makes features of, or hashing if it has none."""


class ArmsRequest(Wire, frozen=True, kw_only=True):
    """Arms that are added, in place of those with the same ids."""

    arms: Annotated[list[Arm], Meta(min_length=1)]
    after: Version | None = None
    """The version of the catalogue that you know: 409 if there is a newer one. None: change the newest."""


class ArmsChange(Wire, frozen=True, kw_only=True):
    """Arms that are retired, and retired arms that come back with the features that they had."""

    retire: tuple[Id, ...] = ()
    restore: tuple[Id, ...] = ()
    after: Version | None = None
    """As in `ArmsRequest`."""


class CatalogueVersion(Wire, frozen=True, kw_only=True):
    """A version of a catalogue. Other processes decide from it within about a second."""

    version: int
    """The number of changes so far."""


class CatalogueStatus(Wire, frozen=True, kw_only=True):
    """The catalogue that this process decides from."""

    version: int
    arms: int
    encoding: str | None
    """dense for numbers, json for named fields; None if the catalogue is empty."""
    features: int | None
    """Of each arm, as the model sees them without a context; None if the catalogue is empty."""
    memory: int
    """Bytes that the arms take in this process, about."""


class ArmsPage(Wire, frozen=True, kw_only=True):
    """A page of the arms that are not retired, the oldest first."""

    version: int
    arms: list[Arm]
    after: int | None
    """What to ask for to get the next page; None if this is the last."""


class CatalogueDecideRequest(Wire, frozen=True, kw_only=True):
    """A question: which arm of the catalogue?"""

    event_id: Id | None = None
    """Names the decision, and seeds its draw. The same one again gets the same answer. None: the server makes one."""
    only: Annotated[list[Id], Meta(min_length=1)] | None = None
    """Ids among which to choose; None for all."""
    excluded: tuple[Id, ...] = ()
    """Ids that must not be chosen. Those that the catalogue does not have are ignored."""
    baseline: Id | None = None
    """What you would show without a model. Verdicts compare with it; modes other than Online show it."""
    context: list[float] | dict[str, Any] | None = None
    """q numbers, if the loop takes p + q + p q features and the arms have p: see `cross_features`. Named fields, if the
    arms have named fields, and the model has a feature map with columns of the context."""
    deferred: bool = False
    """Whether the decision counts only once it is activated."""


class CatalogueDecided(Wire, frozen=True, kw_only=True):
    """The answer."""

    event_id: str
    id: str
    """Of the arm to use."""
    probability: float
    catalogue_version: int
    model_version: str
    degraded: bool
    """The log did not say in time that it has the decision. A reward for it may find it unknown after a crash."""
