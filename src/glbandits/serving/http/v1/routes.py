"""Our own API as a table, and its way into the routes."""

from glbandits.serving.http.auth import Authenticator
from glbandits.serving.http.problem_details import ProblemApi
from glbandits.serving.http.routing import Route, Routes
from glbandits.serving.http.v1 import admin_handlers, decision_handlers
from glbandits.serving.http.v1.admin_handlers import LARGEST_PAGE, PAGE
from glbandits.serving.http.v1.operations import Operation, Parameter, Site, handler_of
from glbandits.serving.http.v1.schemas import (
    ActivateRequest,
    BatchReply,
    BatchRequest,
    Decided,
    DecideRequest,
    EventRecord,
    EventRewardRequest,
    Events,
    LoopConfiguration,
    Loops,
    Rewarded,
    Status,
)
from glbandits.serving.runtime.service import Service

LOOP_PREFIX = "/loops/{loop}"

FLOATS_PARAMETERS = (
    Parameter("arms", "integer", "How many arms the float32 numbers of the body are. Needed with them, and only then."),
    Parameter("eventId", "string", "With a float32 body: as in the JSON one."),
    Parameter("excluded", "string", "With a float32 body: places of arms that must not be chosen, with commas."),
    Parameter("deferred", "boolean", "With a float32 body: as in the JSON one."),
)
PAGE_PARAMETERS = (
    Parameter("prefix", "string", "What the event ids begin with."),
    Parameter("limit", "integer", f"Events of the page, {PAGE} unless told, at most {LARGEST_PAGE}."),
    Parameter("before", "integer", "Only decisions with a smaller number."),
)
SLOT = (Parameter("slot", "string", "Of a decision with several slots: which."),)

OF_A_LOOP = (
    Operation(
        "POST",
        "/v1/decide",
        "rank",
        decision_handlers.decide,
        DecideRequest,
        Decided,
        FLOATS_PARAMETERS,
        takes_floats=True,
        swift=True,
    ),
    Operation("POST", "/v1/reward", "reward", decision_handlers.reward, EventRewardRequest, Rewarded, swift=True),
    Operation("POST", "/v1/activate", "rank", decision_handlers.activate, ActivateRequest, Rewarded, swift=True),
    Operation("POST", "/v1/batch", "rank", decision_handlers.batch, BatchRequest, BatchReply),
    Operation("GET", "/v1/configuration", "read", admin_handlers.configuration, None, LoopConfiguration),
    Operation("PUT", "/v1/configuration", "admin", admin_handlers.configure, LoopConfiguration, LoopConfiguration),
    Operation("PATCH", "/v1/configuration", "admin", admin_handlers.change, LoopConfiguration, LoopConfiguration),
    Operation("GET", "/v1/events", "read", admin_handlers.events, None, Events, PAGE_PARAMETERS),
    Operation("GET", "/v1/events/{event}", "read", admin_handlers.event, None, EventRecord, SLOT),
    Operation("GET", "/v1/model", "read", admin_handlers.model),
    Operation("GET", "/v1/status", "read", admin_handlers.status, None, Status),
)
"""These are there for the default loop, and for every loop under its prefix."""
OF_ALL_LOOPS = (
    Operation("GET", "/v1/loops", "read", admin_handlers.loops, None, Loops),
    Operation("GET", "/v1/loops/{loop}", "read", admin_handlers.status, None, Status),
)


def add_routes(routes: Routes, service: Service, guard: Authenticator) -> None:
    """Add all of them."""
    site = Site(service, ProblemApi(guard), guard.limits)
    for prefix, operations in (("", OF_A_LOOP + OF_ALL_LOOPS), (LOOP_PREFIX, OF_A_LOOP)):
        for operation in operations:
            handler = handler_of(operation, site)
            route = Route(site.api, operation.scope, handler, site.limits.body, swift=operation.swift)
            routes.add(operation.method, prefix + operation.path, route)
