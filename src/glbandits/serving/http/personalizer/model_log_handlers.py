"""The model and the log of a loop: described, replaced and deleted."""

from glbandits.serving.http.http_messages import HttpError, Request
from glbandits.serving.http.personalizer.config_schemas import DateRange, LogsProperties, ModelProperties
from glbandits.serving.http.personalizer.iso8601 import as_time
from glbandits.serving.http.site import Site
from glbandits.serving.runtime.loop_documents import BASE


def put_model(site: Site, request: Request) -> None:
    """Go on with a model that another loop has learned."""
    site.service.loop(request.loop_name).import_model(request.body)


def delete_model(site: Site, request: Request) -> None:
    """Forget all that was learned."""
    site.service.loop(request.loop_name).reset()


def model_properties(site: Site, request: Request) -> ModelProperties:
    """When the model began, and when it last learned."""
    loop, store, now = site.service.loop(request.loop_name), site.service.store, site.service.clock()
    base = store.latest_document(loop.name, BASE)
    began = base.timestamp if base else 0
    # A decision is learned when its reward window is over, or before, if the window was made shorter: the model is as
    # old as the last decision that it has learned.
    last = [logged.decision for logged in store.search(loop.name, "", 1, before=loop.published.sequence + 1)]
    settled = [min(now, decision.timestamp + decision.reward_window) for decision in last]
    return ModelProperties(as_time(began), as_time(max([began, *settled])))


def delete_logs(site: Site, request: Request) -> None:
    """Forget all events. The model stays."""
    site.service.loop(request.loop_name).forget()


def logs_properties(site: Site, request: Request) -> LogsProperties:
    """From when to when there are decisions."""
    summary = site.service.store.summary(site.service.loop(request.loop_name).name)
    if summary.first_at is None or summary.last_at is None:
        raise HttpError(404, "LogsPropertiesNotFound", "there is no decision in the log yet")
    return LogsProperties(DateRange(as_time(summary.first_at), as_time(summary.last_at)))
