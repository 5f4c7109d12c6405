"""Is the process alive, is it ready, and its figures: for load balancers and for Prometheus."""

import asyncio
import shutil
from pathlib import Path

import msgspec

from glbandits.serving.domain.errors import StoreError
from glbandits.serving.http.auth import OPEN
from glbandits.serving.http.http_types import Request, Response
from glbandits.serving.http.routing import Api, Route, Routes
from glbandits.serving.runtime.metrics import (
    METRICS_TYPE,
    Family,
    RequestMetrics,
    exposition,
    labelled,
    log_families,
    process_families,
)
from glbandits.serving.runtime.service import Service
from glbandits.serving.server_settings import Settings
from glbandits.serving.storage.api_keys import KEYS, SERVICE
from glbandits.serving.storage.open_store import is_postgres

PATIENCE = 2.0
"""Seconds that the store has to answer."""
WRITE_PATIENCE = 5.0
"""Seconds that an event may wait to be written, and that a failure to write is remembered."""
MEBIBYTE = 1024 * 1024


class Health:
    """What a server says of itself.

    Args:
        service: the one that is asked about.
        settings: where its store is, and how much disk must be free.
        requests: their figures.
        process: which of several this is.
    """

    def __init__(self, service: Service, settings: Settings, requests: RequestMetrics, process: int) -> None:
        self._service, self._requests, self._process = service, requests, str(process)
        self._folder = None if is_postgres(settings.store) else Path(settings.store).resolve().parent
        self._min_disk = settings.min_disk
        self.draining = False
        """Whether the server is about to stop: it is then not ready, though it still answers."""

    def add_routes(self, routes: Routes, api: Api) -> None:
        """/livez and /readyz for all, and /metrics for those with a key for reading."""
        routes.add("GET", "/livez", Route(api, OPEN, self.live, 0))
        routes.add("GET", "/readyz", Route(api, OPEN, self.ready, 0))
        routes.add("GET", "/metrics", Route(api, "read", self.metrics, 0))

    async def live(self, _: Request) -> Response:
        """The process answers."""
        return Response(200, b'{"status":"alive"}')

    async def ready(self, _: Request) -> Response:
        """Whether requests should be sent here: 200, or 503 with the reasons why not."""
        reasons = self._known_reasons()
        try:
            reasons += await asyncio.wait_for(asyncio.to_thread(self._looked_up_reasons), PATIENCE)
        except (TimeoutError, StoreError, OSError):
            reasons.append("the store does not answer")
        if not reasons:
            return Response(200, b'{"status":"ready"}')
        return Response(503, msgspec.json.encode({"status": "not ready", "reasons": reasons}))

    def _known_reasons(self) -> list[str]:
        reasons = ["the server is stopping"] if self.draining else []
        if not self._service.learning:
            reasons.append("the learner does not run")
        problem = self._service.writer.problem(WRITE_PATIENCE)
        return reasons if problem is None else [*reasons, problem]

    def _looked_up_reasons(self) -> list[str]:
        self._service.store.latest_document(SERVICE, KEYS)
        enough = self._folder is None or shutil.disk_usage(self._folder).free >= self._min_disk * MEBIBYTE
        return [] if enough else [f"less than {self._min_disk} MiB are free beside the store"]

    async def metrics(self, _: Request) -> Response:
        """All figures, in Prometheus' text format."""
        of_log, of_process = await asyncio.to_thread(self._service_families)
        of_process = labelled([*self._requests.families(), *of_process], process=self._process)
        return Response(200, exposition([*of_log, *of_process]).encode(), METRICS_TYPE)

    def _service_families(self) -> tuple[list[Family], list[Family]]:
        return list(log_families(self._service)), list(process_families(self._service))
