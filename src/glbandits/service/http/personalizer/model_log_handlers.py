"""Handlers of the model and the log of a loop: properties, import and deletion."""

from glbandits.service.http.http_messages import HttpError, Request, as_datetime
from glbandits.service.http.personalizer.config_schemas import DateRange, LogsProperties, ModelProperties
from glbandits.service.http.site import Site
from glbandits.service.runtime.loops.loop_documents import BASE


def put_model(site: Site, request: Request) -> None:
    """Replace the model by one that was exported from a loop."""
    site.service.loop(request.loop_name).import_model(request.body)


def delete_model(site: Site, request: Request) -> None:
    """Start a new model that has learned nothing."""
    site.service.loop(request.loop_name).reset()


def model_properties(site: Site, request: Request) -> ModelProperties:
    """Return when the model was started, and when it last learned."""
    loop, store, now = site.service.loop(request.loop_name), site.service.store, site.service.clock()
    base = store.latest_document(loop.name, BASE)
    began = base.timestamp if base else 0
    # The model learned its last decision when its reward window closed, or earlier if the window was made shorter.
    last = [logged.decision for logged in store.search(loop.name, "", 1, before=loop.published.learned_through + 1)]
    settled = [min(now, decision.timestamp + decision.reward_window) for decision in last]
    return ModelProperties(as_datetime(began), as_datetime(max([began, *settled])))


def delete_logs(site: Site, request: Request) -> None:
    """Delete all events. The model stays."""
    site.service.loop(request.loop_name).delete_log()


def logs_properties(site: Site, request: Request) -> LogsProperties:
    """Return the time span of the decisions in the log."""
    summary = site.service.store.summary(site.service.loop(request.loop_name).name)
    if summary.first_at is None or summary.last_at is None:
        raise HttpError(404, "LogsPropertiesNotFound", "the log has no decision yet")
    return LogsProperties(DateRange(as_datetime(summary.first_at), as_datetime(summary.last_at)))
