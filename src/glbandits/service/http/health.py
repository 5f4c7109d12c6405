"""Handlers of /livez, /readyz and /metrics: for load balancers and for Prometheus."""

import asyncio
import shutil
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import Response

from glbandits.service.domain.errors import StoreError
from glbandits.service.http.site import Site
from glbandits.service.runtime.metrics import ServiceMetrics
from glbandits.service.storage.api_keys import KEYS, SERVICE
from glbandits.service.storage.open_store import is_postgres

STORE_TIMEOUT = 2.0
"""Seconds in which the store must answer."""
WRITE_TIMEOUT = 5.0
"""Seconds that an event may wait to be written, and for which a failure to write counts."""


async def live(site: Site, request: Request) -> dict[str, str]:  # noqa: ARG001 - all handlers have this parameter
    """Return 200: the process is alive."""
    return {"status": "alive"}


async def ready(site: Site, request: Request) -> Response:  # noqa: ARG001
    """Return 200 if the server can accept requests, else 503 with the reasons.

    The response 200 names loops with decisions that were set aside because they cannot be learned, and has a sentence
    for each other problem of a loop's model, because the loop decides all the same. It needs no key, so it has no
    number of the business, and names no metric.
    """
    reasons = ["the server is stopping"] if site.draining else []
    reasons += [f"the store is damaged: {line}" for line in site.damage[:3]]
    if not site.service.learning:
        reasons.append("the learner is not running")
    problem = site.service.writer.problem(WRITE_TIMEOUT)
    if problem is not None:
        reasons.append(problem)
    try:
        reasons += await asyncio.wait_for(asyncio.to_thread(_stored_reasons, site), STORE_TIMEOUT)
    except (TimeoutError, StoreError, OSError):
        reasons.append("the store does not answer")
    if reasons:
        return _json({"status": "not ready", "reasons": reasons}, 503)
    loops = site.service.loops
    counts = {name: loop.published.set_aside for name, loop in loops.items() if loop.published.set_aside}
    warnings = [warning for loop in loops.values() for warning in loop.public_warnings()]
    remarks = {"setAside": counts, "warnings": warnings}
    return _json({"status": "ready"} | {name: own for name, own in remarks.items() if own}, 200)


def _json(content: object, status: int) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def _stored_reasons(site: Site) -> list[str]:
    site.service.store.latest_document(SERVICE, KEYS)
    store, min_disk = site.settings.store, site.settings.min_disk
    if is_postgres(store):  # the disk of the database server is not visible here
        return []
    enough = shutil.disk_usage(Path(store).resolve().parent).free >= min_disk * 2**20
    return [] if enough else [f"less than {min_disk} MiB are free on the disk of the store"]


def metrics(site: Site, request: Request) -> Response:  # noqa: ARG001
    """Return all metrics in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(site.request_metrics)
    registry.register(ServiceMetrics(site.service))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)
