"""All endpoints of the service in one table. Routes, scopes and the OpenAPI document are made from it."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from glbandits.serving.http import health
from glbandits.serving.http.auth import OPEN
from glbandits.serving.http.dashboard import handlers as dashboard
from glbandits.serving.http.dashboard.schemas import Statistics
from glbandits.serving.http.endpoint import Endpoint, Parameter
from glbandits.serving.http.http_messages import Request, Response
from glbandits.serving.http.openapi import openapi_json
from glbandits.serving.http.personalizer import (
    config_handlers,
    config_schemas,
    evaluations,
    model_log_handlers,
    rank_handlers,
    schemas,
)
from glbandits.serving.http.personalizer.calls import PREVIEW, STABLE, personalizer_handler
from glbandits.serving.http.personalizer.errors import personalizer_response
from glbandits.serving.http.site import Site
from glbandits.serving.http.v1 import admin_handlers, decision_handlers, explanation_handler, reward_handlers
from glbandits.serving.http.v1 import schemas as v1

RANK, REWARD, READ, ADMIN = "rank", "reward", "read", "admin"
LARGEST_MODEL = 64 * 1024 * 1024
"""Bytes of a model that is imported: 2,800 features with a full covariance."""

FLOATS_PARAMETERS = (
    Parameter("arms", "integer", "How many arms the float32 numbers of the body are. Needed with them, and only then."),
    Parameter("eventId", "string", "With a float32 body: as in the JSON one."),
    Parameter("excluded", "string", "With a float32 body: places of arms that must not be chosen, with commas."),
    Parameter("deferred", "boolean", "With a float32 body: as in the JSON one."),
)
PAGE_PARAMETERS = (
    Parameter("prefix", "string", "What the event ids begin with."),
    Parameter(
        "limit",
        "integer",
        f"Events of the page, {admin_handlers.PAGE} by default, at most {admin_handlers.LARGEST_PAGE}.",
    ),
    Parameter("before", "integer", "Only decisions with a smaller number."),
)
EXPLANATION_PARAMETERS = (
    Parameter(
        "limit",
        "integer",
        f"Features listed for each action, {explanation_handler.LIMIT} by default, at most "
        f"{explanation_handler.LARGEST_LIMIT}.",
    ),
)
SLOT = (Parameter("slot", "string", "Of a decision with several slots: which."),)
WINDOW = (Parameter("window", "string", f"How far back to look: {', '.join(dashboard.WINDOWS)}; hour by default."),)

V1 = (
    Endpoint(
        "POST",
        "/v1/decide",
        RANK,
        decision_handlers.decide,
        v1.DecideRequest,
        v1.Decided,
        parameters=FLOATS_PARAMETERS,
        takes_floats=True,
    ),
    Endpoint("POST", "/v1/reward", REWARD, reward_handlers.reward, v1.EventRewardRequest, v1.Rewarded),
    Endpoint("POST", "/v1/activate", RANK, reward_handlers.activate, v1.ActivateRequest, v1.Rewarded),
    Endpoint("POST", "/v1/batch", RANK, reward_handlers.batch, v1.BatchRequest, v1.BatchReply),
    Endpoint("GET", "/v1/configuration", READ, admin_handlers.configuration, None, v1.LoopConfiguration),
    Endpoint("PUT", "/v1/configuration", ADMIN, admin_handlers.configure, v1.LoopConfiguration, v1.LoopConfiguration),
    Endpoint("PATCH", "/v1/configuration", ADMIN, admin_handlers.change, v1.LoopConfiguration, v1.LoopConfiguration),
    Endpoint("GET", "/v1/events", READ, admin_handlers.events, None, v1.Events, parameters=PAGE_PARAMETERS),
    Endpoint("GET", "/v1/events/{event}", READ, admin_handlers.event, None, v1.EventRecord, parameters=SLOT),
    Endpoint(
        "GET",
        "/v1/events/{event}/explanation",
        READ,
        explanation_handler.explanation,
        None,
        v1.Explanation,
        parameters=EXPLANATION_PARAMETERS,
    ),
    Endpoint("GET", "/v1/model", READ, admin_handlers.model, None, bytes),
    Endpoint("GET", "/v1/status", READ, admin_handlers.status, None, v1.Status),
    Endpoint("GET", "/v1/statistics", READ, dashboard.statistics, None, Statistics, parameters=WINDOW),
    Endpoint("GET", "/v1/loops", READ, admin_handlers.loops, None, v1.Loops, per_loop=False),
    Endpoint("GET", "/v1/loops/{loop}", READ, admin_handlers.status, None, v1.Status, per_loop=False),
)


async def openapi_document(site: Site, request: Request) -> Response:  # noqa: ARG001 - as all handlers
    """This document. It has no data, so it needs no key."""
    return Response(200, openapi_json(ENDPOINTS))


OPERATIONS = (
    Endpoint("GET", "/dashboard", OPEN, dashboard.page, None, bytes, parameters=None, documented=False),
    *(
        Endpoint("GET", path, scope, handler, None, bytes, parameters=None, per_loop=False, documented=False)
        for path, scope, handler in (
            ("/livez", OPEN, health.live),
            ("/readyz", OPEN, health.ready),
            ("/metrics", READ, health.metrics),
            ("/openapi.json", OPEN, openapi_document),
        )
    ),
)


def _call(
    method: str,
    path: str,
    scope: str,
    handler: Callable[..., Awaitable[Any]],
    status: int,
    request: object = None,
    response: object = None,
    *,
    code: str = "BadRequest",
    versions: str = STABLE,
    max_body: int | None = None,
) -> Endpoint:
    return Endpoint(
        method,
        f"/personalizer{versions}{path}",
        scope,
        personalizer_handler(handler, request, status),
        request,
        response,
        status,
        parameters=None,
        max_body=max_body,
        error_code=code,
        error_format=personalizer_response,
    )


BAD_RANK, BAD_REWARD, BAD_ACTIVATION = "InvalidRankRequest", "InvalidRewardRequest", "InvalidEventIdToActivate"
BAD_SERVICE, BAD_POLICY = "InvalidServiceConfiguration", "InvalidPolicyConfiguration"
BAD_EVALUATION, BAD_MODEL = "InvalidEvaluationContract", "InvalidModelImportFormat"
SERVICE, POLICY = config_schemas.ServiceConfiguration, config_schemas.PolicyContract
EVALUATION, CONTRACT = config_schemas.Evaluation, config_schemas.EvaluationContract

PERSONALIZER = (
    _call("POST", "/rank", RANK, rank_handlers.rank, 201, schemas.RankRequest, schemas.RankResponse, code=BAD_RANK),
    _call(
        "POST",
        "/events/{event:event}/reward",
        REWARD,
        rank_handlers.reward,
        204,
        schemas.RewardRequest,
        code=BAD_REWARD,
    ),
    _call("POST", "/events/{event:event}/activate", RANK, rank_handlers.activate, 204, code=BAD_ACTIVATION),
    _call("GET", "/configurations/service", READ, config_handlers.get_service, 200, None, SERVICE),
    _call(
        "PUT", "/configurations/service", ADMIN, config_handlers.put_service, 200, SERVICE, SERVICE, code=BAD_SERVICE
    ),
    _call("GET", "/configurations/policy", READ, config_handlers.get_policy, 200, None, POLICY),
    _call("PUT", "/configurations/policy", ADMIN, config_handlers.put_policy, 200, POLICY, POLICY, code=BAD_POLICY),
    _call("DELETE", "/configurations/policy", ADMIN, config_handlers.delete_policy, 200, None, POLICY),
    _call("GET", "/model", READ, admin_handlers.model, 200, None, bytes),
    _call("DELETE", "/model", ADMIN, model_log_handlers.delete_model, 204),
    _call(
        "GET", "/model/properties", READ, model_log_handlers.model_properties, 200, None, config_schemas.ModelProperties
    ),
    _call("DELETE", "/logs", ADMIN, model_log_handlers.delete_logs, 204),
    _call(
        "GET", "/logs/properties", READ, model_log_handlers.logs_properties, 200, None, config_schemas.LogsProperties
    ),
    _call("GET", "/evaluations", READ, evaluations.list_all, 200, None, list[config_schemas.Evaluation]),
    _call("POST", "/evaluations", ADMIN, evaluations.create, 201, CONTRACT, EVALUATION, code=BAD_EVALUATION),
    _call("GET", "/evaluations/{evaluation}", READ, evaluations.get, 200, None, EVALUATION),
    _call("DELETE", "/evaluations/{evaluation}", ADMIN, evaluations.delete, 204),
    _call(
        "POST",
        "/multislot/rank",
        RANK,
        rank_handlers.rank_slots,
        201,
        schemas.MultiSlotRankRequest,
        schemas.MultiSlotRankResponse,
        code=BAD_RANK,
        versions=PREVIEW,
    ),
    _call(
        "POST",
        "/multislot/events/{event:event}/reward",
        REWARD,
        rank_handlers.reward_slots,
        204,
        schemas.MultiSlotRewardRequest,
        code=BAD_REWARD,
        versions=PREVIEW,
    ),
    _call(
        "POST",
        "/multislot/events/{event:event}/activate",
        RANK,
        rank_handlers.activate,
        204,
        code=BAD_ACTIVATION,
        versions=PREVIEW,
    ),
    _call(
        "PUT",
        "/model",
        ADMIN,
        model_log_handlers.put_model,
        204,
        bytes,
        code=BAD_MODEL,
        versions=PREVIEW,
        max_body=LARGEST_MODEL,
    ),
    _call(
        "PUT",
        "/evaluations/{evaluation}",
        ADMIN,
        evaluations.create_named,
        200,
        CONTRACT,
        EVALUATION,
        code=BAD_EVALUATION,
        versions=PREVIEW,
    ),
    _call(
        "POST",
        "/configurations/applyFromEvaluation",
        ADMIN,
        evaluations.apply,
        204,
        config_schemas.PolicyReference,
        code=BAD_POLICY,
        versions=PREVIEW,
    ),
)
ENDPOINTS = (*V1[:2], *PERSONALIZER[:2], *V1[2:], *PERSONALIZER[2:], *OPERATIONS)
"""Decisions and rewards come first, because Starlette tries routes in this order."""

if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(openapi_json(ENDPOINTS))
