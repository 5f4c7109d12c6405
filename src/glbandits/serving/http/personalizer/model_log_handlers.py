"""The model and the log of a loop: fetched, described, replaced and deleted."""

import asyncio

import msgspec

from glbandits.serving.http.http_types import HttpError, Request, Response
from glbandits.serving.http.personalizer.config_schemas import DateRange, LogsProperties, ModelProperties
from glbandits.serving.http.personalizer.iso8601 import as_time
from glbandits.serving.http.personalizer.rank_handlers import NO_CONTENT, loop_of
from glbandits.serving.runtime.learning_loop import BASE, Loop
from glbandits.serving.runtime.service import Service

BYTES_TYPE = b"application/octet-stream"


class Keeping:
    """The handlers."""

    def __init__(self, service: Service) -> None:
        self._service, self._store = service, service.store

    async def get_model(self, request: Request) -> Response:
        """The model that decides now, as a safetensors file that `Bandit.load` reads."""
        return Response(200, await asyncio.to_thread(self._loop(request).export_model), BYTES_TYPE)

    async def put_model(self, request: Request) -> Response:
        """Go on with a model that another loop has learned."""
        await asyncio.to_thread(self._loop(request).import_model, request.body)
        return NO_CONTENT

    async def delete_model(self, request: Request) -> Response:
        """Forget all that was learned."""
        await asyncio.to_thread(self._loop(request).reset)
        return NO_CONTENT

    async def model_properties(self, request: Request) -> Response:
        """When the model began, and when it last learned."""
        properties = await asyncio.to_thread(self._model_properties, self._loop(request))
        return Response(200, msgspec.json.encode(properties))

    def _model_properties(self, loop: Loop) -> ModelProperties:
        base = self._store.latest_document(loop.name, BASE)
        began = base.timestamp if base else 0
        # A decision is learned when its wait is over, or before, if the wait was made shorter: the model is as old as
        # the last one that it has passed.
        passed = self._store.search(loop.name, "", 1, before=loop.published.sequence + 1)
        now = self._service.clock()
        ripened = [min(now, one.decision.timestamp + one.decision.reward_window) for one in passed]
        return ModelProperties(as_time(began), as_time(max([began, *ripened])))

    async def delete_logs(self, request: Request) -> Response:
        """Forget all events. The model stays."""
        await asyncio.to_thread(self._loop(request).forget)
        return NO_CONTENT

    async def logs_properties(self, request: Request) -> Response:
        """From when to when there are decisions."""
        summary = await asyncio.to_thread(self._store.summary, self._loop(request).name)
        if summary.first_at is None or summary.last_at is None:
            raise HttpError(404, "LogsPropertiesNotFound", "there is no decision in the log yet")
        dates = DateRange(as_time(summary.first_at), as_time(summary.last_at))
        return Response(200, msgspec.json.encode(LogsProperties(dates)))

    def _loop(self, request: Request) -> Loop:
        return self._service.loop(loop_of(request))
