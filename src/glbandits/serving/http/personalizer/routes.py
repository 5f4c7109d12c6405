"""Who answers what, in each version of the contract, for the default loop and for every other."""

from typing import NamedTuple

from glbandits.serving.http.auth import Authenticator
from glbandits.serving.http.http_types import HttpError, Request, Response
from glbandits.serving.http.personalizer.config_handlers import Configuring
from glbandits.serving.http.personalizer.errors import PersonalizerApi
from glbandits.serving.http.personalizer.evaluations import EvaluateLog, Evaluations
from glbandits.serving.http.personalizer.model_log_handlers import Keeping
from glbandits.serving.http.personalizer.multi_slot import MultiSlot
from glbandits.serving.http.personalizer.rank_handlers import Ranking
from glbandits.serving.http.routing import Handler, Route, Routes
from glbandits.serving.runtime.service import Service

STABLE = ("v1.0",)
PREVIEWS = ("v1.1-preview.1", "v1.1-preview.2", "v1.1-preview.3")
DATED = ("2022-09-01-preview",)
"""Versions that are named by the query, ?api-version=, and not by the path."""
LARGEST_MODEL = 64 * 1024 * 1024
"""Bytes of a model that is imported: 2,800 features whose covariance is kept whole."""
RANK, REWARD, READ, ADMIN = "rank", "reward", "read", "admin"
"""Scopes."""


class Call(NamedTuple):
    """One line of the contract."""

    method: str
    path: str
    scope: str
    handler: Handler
    code: str = "BadRequest"
    """What a bad request is called."""
    largest_body: int | None = None
    """If it may be larger than others."""
    swift: bool = False
    """See `Route`."""


def add_routes(routes: Routes, service: Service, guard: Authenticator, evaluate_log: EvaluateLog | None = None) -> None:
    """Answer the calls of Personalizer: v1.0, its previews, and the one whose version is in the query.

    Args:
        routes: get them.
        service: answers.
        guard: admits.
        evaluate_log: what policies would have earned; without it evaluations are refused.
    """
    stable, previews = _calls(service, guard, evaluate_log)
    for prefix in ("", "/loops/{loop}"):
        routes.speak_for(f"{prefix}/personalizer", PersonalizerApi(guard, preview=True))
        for version in (*STABLE, *PREVIEWS):
            routes.speak_for(f"{prefix}/personalizer/{version}", PersonalizerApi(guard, preview=version in PREVIEWS))
            offered = stable if version in STABLE else [*stable, *previews]
            for call in offered:
                _add(routes, guard, f"{prefix}/personalizer/{version}", call, preview=version in PREVIEWS)
        for call in (*stable, *previews):
            _add(routes, guard, f"{prefix}/personalizer", call._replace(handler=_dated(call.handler)), preview=True)


def _calls(service: Service, guard: Authenticator, evaluate_log: EvaluateLog | None) -> tuple[list[Call], list[Call]]:
    """What all versions have, and what only the previews have."""
    ranking, multi_slot = Ranking(service, guard.limits), MultiSlot(service, guard.limits)
    configuring, keeping = Configuring(service), Keeping(service)
    evaluations = Evaluations(service, configuring, evaluate_log)
    stable = [
        Call("POST", "/rank", RANK, ranking.rank, "InvalidRankRequest", swift=True),
        Call("POST", "/events/{event}/reward", REWARD, ranking.reward, "InvalidRewardRequest", swift=True),
        Call("POST", "/events/{event}/activate", RANK, ranking.activate, "InvalidEventIdToActivate", swift=True),
        Call("GET", "/configurations/service", READ, configuring.get_service),
        Call("PUT", "/configurations/service", ADMIN, configuring.put_service, "InvalidServiceConfiguration"),
        Call("GET", "/configurations/policy", READ, configuring.get_policy),
        Call("PUT", "/configurations/policy", ADMIN, configuring.put_policy, "InvalidPolicyConfiguration"),
        Call("DELETE", "/configurations/policy", ADMIN, configuring.delete_policy),
        Call("GET", "/model", READ, keeping.get_model),
        Call("DELETE", "/model", ADMIN, keeping.delete_model),
        Call("GET", "/model/properties", READ, keeping.model_properties),
        Call("DELETE", "/logs", ADMIN, keeping.delete_logs),
        Call("GET", "/logs/properties", READ, keeping.logs_properties),
        Call("GET", "/evaluations", READ, evaluations.all),
        Call("POST", "/evaluations", ADMIN, evaluations.create, "InvalidEvaluationContract"),
        Call("GET", "/evaluations/{evaluation}", READ, evaluations.get),
        Call("DELETE", "/evaluations/{evaluation}", ADMIN, evaluations.delete),
    ]
    previews = [
        Call("POST", "/multislot/rank", RANK, multi_slot.rank, "InvalidRankRequest"),
        Call("POST", "/multislot/events/{event}/reward", REWARD, multi_slot.reward, "InvalidRewardRequest"),
        Call("POST", "/multislot/events/{event}/activate", RANK, ranking.activate, "InvalidEventIdToActivate"),
        Call("PUT", "/model", ADMIN, keeping.put_model, "InvalidModelImportFormat", LARGEST_MODEL),
        Call("PUT", "/evaluations/{evaluation}", ADMIN, evaluations.create_named, "InvalidEvaluationContract"),
        Call("POST", "/configurations/applyFromEvaluation", ADMIN, evaluations.apply, "InvalidPolicyConfiguration"),
    ]
    return stable, previews


def _add(routes: Routes, guard: Authenticator, base: str, call: Call, *, preview: bool) -> None:
    api = PersonalizerApi(guard, preview=preview, code=call.code)
    largest = guard.limits.body if call.largest_body is None else call.largest_body
    routes.add(call.method, base + call.path, Route(api, call.scope, call.handler, largest, swift=call.swift))


def _dated(handler: Handler) -> Handler:
    """A handler of calls whose version is in the query."""
    known = (*DATED, *PREVIEWS, *STABLE)

    async def answer(request: Request) -> Response:
        version = request.parameters().get("api-version")
        if version not in known:
            raise HttpError(400, "BadRequest", f"api-version should be one of {', '.join(known)}; got {version!r}")
        return await handler(request)

    return answer
