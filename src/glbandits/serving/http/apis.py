"""All APIs of the service."""

from glbandits.serving.http import native
from glbandits.serving.http.application import AddRoutes

APIS: tuple[AddRoutes, ...] = (native.add_routes,)
