"""Handlers of catalogues: arms that are stored once and chosen by id."""

from collections.abc import Sequence

import msgspec
import numpy as np

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.catalogues.catalogue_records import CatalogueArm, CatalogueQuery, CatalogueRequest, NewArm
from glbandits.service.domain.event_rules import new_event_id
from glbandits.service.domain.request_features import DENSE, JSON
from glbandits.service.http.http_messages import HttpError, Request
from glbandits.service.http.site import Site
from glbandits.service.http.v1 import catalogue_schemas as schemas
from glbandits.service.http.v1.decision_handlers import model_version, page_limit, parse_integer, parse_json
from glbandits.service.runtime.loops.loop_catalogue import LoopCatalogue
from glbandits.service.server_settings import Settings

PAGE, LARGEST_PAGE = 100, 1000
"""Arms in a page by default, and at most."""
LARGEST_FIELDS = 16 * 1024
"""Bytes of the named fields of an arm, at most."""
MEMORY_OF_ARM, MEMORY_OF_FEATURE = 800, 12.0
"""Bytes of memory for an arm, and for each of its features: a float64, with room for up to twice the arms."""

_decide_request = msgspec.json.Decoder(schemas.CatalogueDecideRequest)
_arms_request = msgspec.json.Decoder(schemas.ArmsRequest)
_arms_change = msgspec.json.Decoder(schemas.ArmsChange)


async def decide(site: Site, request: Request) -> schemas.CatalogueDecided:
    """Choose an arm of the catalogue."""
    sent = parse_json(_decide_request, request.body)
    query = CatalogueQuery(
        only=None if sent.only is None else tuple(sent.only),
        excluded=sent.excluded,
        baseline=sent.baseline,
        context=tuple(sent.context) if isinstance(sent.context, list) else sent.context,
    )
    catalogue_request = CatalogueRequest(event_id=sent.event_id or new_event_id(), query=query, deferred=sent.deferred)
    decision, degraded = await site.service.decide_from_catalogue(request.loop_name, catalogue_request)
    assert decision.catalogue is not None
    return schemas.CatalogueDecided(
        event_id=decision.event_id,
        id=decision.actions[decision.shown],
        probability=decision.probability,
        catalogue_version=decision.catalogue.version,
        model_version=model_version(decision.epoch, decision.learned_through),
        degraded=degraded,
    )


def status(site: Site, request: Request) -> schemas.CatalogueStatus:
    """Return the version and the size of the catalogue."""
    catalogue = _catalogue(site, request)
    catalogue.refresh()
    served = catalogue.served
    memory = round(len(served) * (MEMORY_OF_ARM + MEMORY_OF_FEATURE * (served.dim or 0)))
    return schemas.CatalogueStatus(
        version=served.version, arms=len(served), encoding=served.encoding, features=served.dim, memory=memory
    )


def arms(site: Site, request: Request) -> schemas.ArmsPage:
    """Return the arms of the catalogue that are not retired, a page at a time."""
    loop, parameters = site.service.loop(request.loop_name), request.parameters()
    limit = page_limit(parameters, PAGE, LARGEST_PAGE)
    after = parse_integer(parameters.get("after", "0"), "after")
    version, page = site.service.store.live_arms(loop.name, after, limit)
    following = page[-1].number if len(page) == limit else None
    return schemas.ArmsPage(version=version, arms=[_as_schema(arm) for arm in page], after=following)


def arm(site: Site, request: Request) -> schemas.Arm:
    """Return an arm of the catalogue."""
    loop, arm_id = site.service.loop(request.loop_name), request.values["arm"]
    stored = site.service.store.arms_of_ids(loop.name, [arm_id]).get(arm_id)
    if stored is None or stored.retired:
        raise HttpError(404, "UnknownArm", f"the catalogue has no arm {arm_id!r}; it was retired, or never added")
    return _as_schema(stored)


def put(site: Site, request: Request) -> schemas.CatalogueVersion:
    """Add arms to the catalogue, or replace those with the same ids: all or none."""
    sent = parse_json(_arms_request, request.body)
    new, settings = [_new_arm(arm, site.settings) for arm in sent.arms], site.settings
    if len({arm.id for arm in new}) < len(new):
        raise InvalidInput("ids must be unique; two arms have the same id")
    if len({arm.encoding for arm in new}) > 1:
        raise InvalidInput("features must be numbers for all arms or named fields for all arms; got both")
    return _version(_catalogue(site, request).put(new, max_arms=settings.max_catalogue, expected_version=sent.after))


def change(site: Site, request: Request) -> schemas.CatalogueVersion:
    """Retire arms, and restore retired ones: all or none."""
    sent = parse_json(_arms_change, request.body)
    return _version(
        _catalogue(site, request).retire_and_restore(
            sent.retire, sent.restore, max_arms=site.settings.max_catalogue, expected_version=sent.after
        )
    )


def delete(site: Site, request: Request) -> schemas.CatalogueVersion:
    """Delete all arms, also retired ones."""
    return _version(_catalogue(site, request).delete())


def _catalogue(site: Site, request: Request) -> LoopCatalogue:
    return site.service.loop(request.loop_name).catalogue


def _version(version: int) -> schemas.CatalogueVersion:
    return schemas.CatalogueVersion(version=version)


def _new_arm(sent: schemas.Arm, settings: Settings) -> NewArm:
    if "\0" in sent.id:
        raise InvalidInput(f"the id of an arm must not contain NUL; got {sent.id!r}")
    if isinstance(sent.features, dict):
        fields = msgspec.json.encode(sent.features)
        if len(fields) > LARGEST_FIELDS:
            raise InvalidInput(f"the fields of an arm may have {LARGEST_FIELDS} bytes; {sent.id!r} has {len(fields)}")
        return NewArm(sent.id, JSON, fields)
    _check_length(sent.id, sent.features, settings)
    return NewArm(sent.id, DENSE, np.array(sent.features, dtype=np.float64).tobytes())


def _check_length(arm_id: str, features: Sequence[float], settings: Settings) -> None:
    if not 1 <= len(features) <= settings.max_features:
        raise InvalidInput(f"an arm must have 1 to {settings.max_features} features; {arm_id!r} has {len(features)}")


def _as_schema(stored: CatalogueArm) -> schemas.Arm:
    dense = stored.encoding == DENSE
    features = np.frombuffer(stored.features).tolist() if dense else msgspec.json.decode(stored.features)
    return schemas.Arm(id=stored.id, features=features)
