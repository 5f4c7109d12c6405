"""Handlers of flag evaluations. A flag is a loop with variants."""

import asyncio
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from glbandits.common.errors import GlbanditsError, InvalidInput
from glbandits.service.domain.errors import QueueFull, StoreError
from glbandits.service.domain.events import Group
from glbandits.service.domain.variants import flag_request
from glbandits.service.http.endpoint import JSON_TYPE, encode_json
from glbandits.service.http.http_errors import HttpError, as_http_error
from glbandits.service.http.ofrep.schemas import FlagEvaluation, Flags, Metadata
from glbandits.service.http.site import Site
from glbandits.service.http.v1.decision_handlers import model_version
from glbandits.service.http.v1.schemas import LONGEST_ID
from glbandits.service.runtime.decision_writer import DECISION_TIMEOUT

INVALID_CONTEXT, KEY_MISSING, NOT_FOUND = "INVALID_CONTEXT", "TARGETING_KEY_MISSING", "FLAG_NOT_FOUND"


Context: TypeAlias = tuple[str, Mapping[str, Any]]
"""The targeting key, which is the unit, and the features."""


async def evaluate(site: Site, request: Request, sent: Mapping[str, Any]) -> FlagEvaluation:
    """Evaluate a flag. The decision counts as shown."""
    return await _evaluation(site, request.path_params["key"], _context(sent), shows=True)


async def evaluate_all(site: Site, request: Request, sent: Mapping[str, Any]) -> Response:
    """Evaluate all flags that the key may use. A decision counts when an evaluation of its flag alone shows it."""
    context = _context(sent)
    flags = (name for name, loop in site.service.loops.items() if loop.configuration.variants)
    names = sorted(filter(request.state.key.may_use, flags))
    content = encode_json(Flags(flags=await asyncio.gather(*(_outcome(site, request, key, context) for key in names))))
    etag = f'"{blake2b(content, digest_size=16).hexdigest()}"'
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"etag": etag})
    return Response(content, headers={"etag": etag}, media_type=JSON_TYPE)


async def _outcome(site: Site, request: Request, key: str, context: Context) -> FlagEvaluation:
    """Evaluate a flag without showing it. Returns the error if that fails."""
    try:
        return await _evaluation(site, key, context, shows=False)
    except GlbanditsError as error:
        found = as_http_error(error, request)
        return FlagEvaluation(key=key, error_code=_code(found), error_details=found.message)


def _code(error: HttpError, of_bad_body: str = INVALID_CONTEXT) -> str:
    """Return the error code of the protocol."""
    codes = {"BadRequest": of_bad_body, INVALID_CONTEXT: INVALID_CONTEXT, KEY_MISSING: KEY_MISSING}
    return NOT_FOUND if error.status == 404 else codes.get(error.code, "GENERAL")


def ofrep_response(error: HttpError, request: Request, code: str) -> Response:
    """Return an error as the protocol has it. `code` is for a body that is no JSON object."""
    body = {"errorCode": _code(error, code), "errorDetails": error.message}
    key = request.path_params.get("key")
    return Response(encode_json(body if key is None else {"key": key} | body), error.status, error.headers, JSON_TYPE)


def _context(sent: Mapping[str, Any]) -> Context:
    features = sent.get("context")
    if not isinstance(features, dict):
        raise HttpError(400, INVALID_CONTEXT, "context must be an object with a targetingKey; send one")
    unit = features.pop("targetingKey", None)
    if unit is None or unit == "":
        raise HttpError(400, KEY_MISSING, "context must have a targetingKey: the user or session; send one")
    if not isinstance(unit, str) or len(unit) > LONGEST_ID:
        raise HttpError(400, INVALID_CONTEXT, f"targetingKey must be a text of 1 to {LONGEST_ID} characters")
    return unit, features


async def _evaluation(site: Site, key: str, context: Context, *, shows: bool) -> FlagEvaluation:
    """Evaluate a flag for a unit, which gets the same decision for as long as the loop is sticky.

    A decision that is not shown is deferred: it counts when an evaluation shows it.
    """
    loop = site.service.loops.get(key)
    variants = {} if loop is None else loop.configuration.variants
    if loop is None or not variants:
        raise HttpError(404, NOT_FOUND, f"there is no flag {key!r}; set the variants of a loop of this name")
    default = loop.configuration.default_variant
    try:
        sent = flag_request(variants, default, *context, deferred=not shows)
        result = await site.service.decide(key, sent, once=True)
    except InvalidInput as error:
        raise HttpError(400, INVALID_CONTEXT, str(error)) from None
    decision, is_stale = result.decision, result.degraded
    if shows and decision.deferred:
        try:
            await asyncio.wait_for(site.service.activate(key, decision.event_id), DECISION_TIMEOUT)
        except (TimeoutError, StoreError, QueueFull):
            is_stale = True
    variant = decision.actions[decision.shown]
    is_default = decision.is_stopped or decision.group is Group.CONTROL
    return FlagEvaluation(
        key=key,
        value=variants[variant].value,
        reason="STALE" if is_stale else "DEFAULT" if is_default else "SPLIT",
        variant=variant,
        metadata=Metadata(
            event_id=decision.event_id,
            probability=decision.probability,
            model_version=model_version(decision.epoch, decision.learned_through),
        ),
    )
