"""Handlers of the guardrails of a loop."""

from starlette.requests import Request

from glbandits.service.domain.groups.guardrail_report import Guardrails
from glbandits.service.http.endpoint import loop_name
from glbandits.service.http.site import Site


def guardrails(site: Site, request: Request) -> Guardrails:
    """Return the comparison of treatment with control, and the state of each guardrail."""
    loop = site.service.loop(loop_name(request))
    return loop.guardrails.report(loop.configuration)


def resume(site: Site, request: Request) -> Guardrails:
    """End the fallback of a loop. All comparisons start again, with units that come after it."""
    loop = site.service.loop(loop_name(request))
    loop.guardrails.resume()
    return loop.guardrails.report(loop.configuration)
