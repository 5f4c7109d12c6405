"""The model and the log of a loop: fetched, described, replaced and deleted."""

import asyncio

import msgspec

from glbandits.serving.http.http_messages import NO_CONTENT, HttpError, Request, Response
from glbandits.serving.http.personalizer.config_schemas import DateRange, LogsProperties, ModelProperties
from glbandits.serving.http.personalizer.iso8601 import as_time
from glbandits.serving.http.site import Site
from glbandits.serving.runtime.learning_loop import BASE, Loop

BYTES_TYPE = b"application/octet-stream"


async def get_model(site: Site, request: Request) -> Response:
    """The model that decides now, as a safetensors file that `Bandit.load` reads."""
    return Response(200, await asyncio.to_thread(site.service.loop(request.loop_name).export_model), BYTES_TYPE)


async def put_model(site: Site, request: Request) -> Response:
    """Go on with a model that another loop has learned."""
    await asyncio.to_thread(site.service.loop(request.loop_name).import_model, request.body)
    return NO_CONTENT


async def delete_model(site: Site, request: Request) -> Response:
    """Forget all that was learned."""
    await asyncio.to_thread(site.service.loop(request.loop_name).reset)
    return NO_CONTENT


async def model_properties(site: Site, request: Request) -> Response:
    """When the model began, and when it last learned."""
    properties = await asyncio.to_thread(_model_properties, site, site.service.loop(request.loop_name))
    return Response(200, msgspec.json.encode(properties))


def _model_properties(site: Site, loop: Loop) -> ModelProperties:
    base = site.service.store.latest_document(loop.name, BASE)
    began = base.timestamp if base else 0
    # A decision is learned when its wait is over, or before, if the wait was made shorter: the model is as old as
    # the last one that it has passed.
    passed = site.service.store.search(loop.name, "", 1, before=loop.published.sequence + 1)
    now = site.service.clock()
    ripened = [min(now, one.decision.timestamp + one.decision.reward_window) for one in passed]
    return ModelProperties(as_time(began), as_time(max([began, *ripened])))


async def delete_logs(site: Site, request: Request) -> Response:
    """Forget all events. The model stays."""
    await asyncio.to_thread(site.service.loop(request.loop_name).forget)
    return NO_CONTENT


async def logs_properties(site: Site, request: Request) -> Response:
    """From when to when there are decisions."""
    summary = await asyncio.to_thread(site.service.store.summary, site.service.loop(request.loop_name).name)
    if summary.first_at is None or summary.last_at is None:
        raise HttpError(404, "LogsPropertiesNotFound", "there is no decision in the log yet")
    dates = DateRange(as_time(summary.first_at), as_time(summary.last_at))
    return Response(200, msgspec.json.encode(LogsProperties(dates)))
