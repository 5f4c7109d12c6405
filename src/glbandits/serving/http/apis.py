"""All APIs of the service."""

from functools import partial

from glbandits.serving.http import dashboard, openapi, personalizer, v1
from glbandits.serving.http.application import AddRoutes
from glbandits.serving.http.personalizer import EvaluateLog


def all_apis(evaluate_log: EvaluateLog | None = None) -> tuple[AddRoutes, ...]:
    """All of them. Evaluations are done by what is handed in, as the service itself knows no estimators."""
    of_personalizer = partial(personalizer.add_routes, evaluate_log=evaluate_log)
    return (of_personalizer, v1.add_routes, dashboard.add_routes, openapi.add_routes)


APIS = all_apis()
"""All of them, without evaluations."""
