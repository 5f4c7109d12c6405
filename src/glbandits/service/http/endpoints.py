"""The table of all endpoints, from which routes, scopes and the OpenAPI document are made."""

import sys
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from glbandits.service.domain.groups.guardrail_report import Guardrails
from glbandits.service.http import health
from glbandits.service.http.api_page import api_page
from glbandits.service.http.auth import ADMIN, EVALUATE, OPEN, RANK, READ, REWARD
from glbandits.service.http.dashboard import handlers as dashboard
from glbandits.service.http.dashboard.schemas import Statistics
from glbandits.service.http.endpoint import EVENT, Endpoint, Parameter
from glbandits.service.http.ofrep.evaluation_handlers import evaluate, evaluate_all, ofrep_response
from glbandits.service.http.ofrep.schemas import EvaluationRequest, FlagEvaluation, Flags
from glbandits.service.http.openapi import openapi_json
from glbandits.service.http.personalizer import config_handlers as config
from glbandits.service.http.personalizer import config_schemas, rank_handlers, schemas
from glbandits.service.http.personalizer.contract import (
    BAD_ACTIVATION,
    BAD_RANK,
    BAD_REWARD,
    BAD_SERVICE,
    personalizer_response,
)
from glbandits.service.http.site import Site
from glbandits.service.http.v1 import (
    configuration_handlers,
    decision_handlers,
    guardrail_handlers,
    loop_handlers,
    reward_handlers,
)
from glbandits.service.http.v1 import schemas as v1

PAGE = (
    Parameter("prefix", "string", "The beginning of the event ids."),
    Parameter(
        "limit",
        "integer",
        f"Events in the page, {loop_handlers.PAGE} by default, at most {loop_handlers.LARGEST_PAGE}.",
    ),
    Parameter("before", "integer", "Only decisions with a smaller sequence number: `before` of the previous page."),
)
FEATURES = (
    f"Features listed for each action, {loop_handlers.FEATURES} by default, at most {loop_handlers.MAX_FEATURES}."
)
LIMIT = (Parameter("limit", "integer", FEATURES),)
SLOT = (
    Parameter("slot", "string", "The slot, for an event with several slots."),
    Parameter("rewardsAfter", "integer", "Only later rewards: `rewardsAfter` of the previous response."),
)
WINDOW = (Parameter("window", "string", f"The window: {', '.join(dashboard.WINDOWS)}; hour by default."),)

LOOP, SENT = configuration_handlers.LoopConfiguration, dict[str, Any]
LOGGED = f"/v1/events/{EVENT}"
GUARDRAILS, RESUME = guardrail_handlers.guardrails, guardrail_handlers.resume
V1 = (
    Endpoint("POST", "/v1/decide", RANK, decision_handlers.decide, v1.DecideRequest, v1.Decided),
    Endpoint("POST", "/v1/reward", REWARD, reward_handlers.reward, v1.EventRewardRequest, v1.Rewarded),
    Endpoint("POST", "/v1/metrics", REWARD, reward_handlers.metrics, v1.MetricsRequest, v1.MetricsReply),
    Endpoint("POST", "/v1/activate", RANK, reward_handlers.activate, v1.ActivateRequest, v1.Rewarded),
    Endpoint("POST", "/v1/rank", RANK, decision_handlers.rank, v1.RankingRequest, v1.Ranked),
    Endpoint("POST", "/v1/batch", RANK, reward_handlers.batch, v1.BatchRequest, v1.BatchReply),
    Endpoint("GET", "/v1/configuration", READ, configuration_handlers.configuration, None, LOOP),
    Endpoint("PUT", "/v1/configuration", ADMIN, configuration_handlers.configure, LOOP, LOOP, decoded=SENT),
    Endpoint("PATCH", "/v1/configuration", ADMIN, configuration_handlers.change, LOOP, LOOP, decoded=SENT),
    Endpoint("GET", "/v1/events", READ, loop_handlers.events, None, v1.EventPage, parameters=PAGE),
    Endpoint("GET", LOGGED + "/explanation", READ, loop_handlers.explanation, None, v1.Explanation, parameters=LIMIT),
    Endpoint("GET", LOGGED, READ, loop_handlers.event, None, v1.EventRecord, parameters=SLOT),
    Endpoint("GET", "/v1/model", READ, loop_handlers.model, None, bytes),
    Endpoint("GET", "/v1/status", READ, loop_handlers.status, None, v1.Status),
    Endpoint("GET", "/v1/statistics", READ, dashboard.statistics, None, Statistics, parameters=WINDOW),
    Endpoint("GET", "/v1/loops", READ, loop_handlers.loops, None, v1.Loops, per_loop=False, of_any_loop=True),
    Endpoint("POST", "/v1/loops", ADMIN, loop_handlers.create_loop, v1.NewLoop, v1.Status, 201, per_loop=False),
    Endpoint("DELETE", "/v1/loops/{loop}", ADMIN, loop_handlers.delete_loop, status=204, per_loop=False),
    Endpoint("GET", "/v1/loops/{loop}", READ, loop_handlers.status, None, v1.Status, per_loop=False),
    Endpoint("GET", "/v1/guardrails", READ, GUARDRAILS, None, Guardrails),
    Endpoint("POST", "/v1/guardrails/resume", ADMIN, RESUME, None, Guardrails),
    Endpoint("GET", "/v1/loops/{loop}/guardrails", READ, GUARDRAILS, None, Guardrails, per_loop=False),
    Endpoint("POST", "/v1/loops/{loop}/guardrails/resume", ADMIN, RESUME, None, Guardrails, per_loop=False),
)

REWARDS, ACTIVATIONS = f"/events/{EVENT}/reward", f"/events/{EVENT}/activate"
SERVICE = config_schemas.ServiceConfiguration
PERSONALIZER = tuple(
    endpoint._replace(path=f"/personalizer/v1.0{endpoint.path}", parameters=None, error_format=personalizer_response)
    for endpoint in (
        Endpoint(
            *("POST", "/rank", RANK, rank_handlers.rank, schemas.RankRequest, schemas.RankResponse, 201, BAD_RANK),
            decoded=schemas.RankOf[schemas.SentAction],
        ),
        Endpoint("POST", REWARDS, REWARD, rank_handlers.reward, schemas.RewardRequest, None, 204, BAD_REWARD),
        Endpoint("POST", ACTIVATIONS, RANK, rank_handlers.activate, None, None, 204, BAD_ACTIVATION),
        Endpoint("GET", "/configurations/service", READ, config.get_service, None, SERVICE),
        Endpoint("PUT", "/configurations/service", ADMIN, config.put_service, SERVICE, SERVICE, 200, BAD_SERVICE),
    )
)
FLAGS = "/ofrep/v1/evaluate/flags"
OFREP = tuple(
    endpoint._replace(decoded=dict[str, Any], error_format=ofrep_response, error_code="PARSE_ERROR", per_loop=False)
    for endpoint in (
        Endpoint("POST", FLAGS + "/{key:event}", EVALUATE, evaluate, EvaluationRequest, FlagEvaluation),
        Endpoint("POST", FLAGS, EVALUATE, evaluate_all, EvaluationRequest, Flags, parameters=None, of_any_loop=True),
    )
)
DOCUMENTED = (*V1[:2], *OFREP, *PERSONALIZER[:2], *V1[2:], *PERSONALIZER[2:])
"""Endpoints in the OpenAPI document. Routes are tried in this order, so decisions and rewards come first."""


async def openapi_document(site: Site, request: Request) -> Response:  # noqa: ARG001 - all handlers have this parameter
    """Return this document. It needs no key, because it has no data."""
    return Response(openapi_json(DOCUMENTED), media_type="application/json")


async def docs(site: Site, request: Request) -> Response:  # noqa: ARG001
    """Return this document as a page for people."""
    return api_page(openapi_json(DOCUMENTED))


async def root(site: Site, request: Request) -> Response:  # noqa: ARG001
    """Redirect to the dashboard."""
    return RedirectResponse("dashboard")


ENDPOINTS = (
    *DOCUMENTED,
    Endpoint("GET", "/dashboard", OPEN, dashboard.page, parameters=None),
    Endpoint("GET", "/", OPEN, root, parameters=None, per_loop=False),
    Endpoint("GET", "/docs", OPEN, docs, parameters=None, per_loop=False),
    Endpoint("GET", "/livez", OPEN, health.live, parameters=None, per_loop=False),
    Endpoint("GET", "/readyz", OPEN, health.ready, parameters=None, per_loop=False),
    Endpoint("GET", "/metrics", READ, health.metrics, parameters=None, per_loop=False, urgent=True),
    Endpoint("GET", "/openapi.json", OPEN, openapi_document, parameters=None, per_loop=False),
)

if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(openapi_json(DOCUMENTED))
