"""All APIs of the service."""

from glbandits.serving.http import dashboard, native, openapi, personalizer
from glbandits.serving.http.application import AddRoutes

APIS: tuple[AddRoutes, ...] = (personalizer.add_routes, native.add_routes, dashboard.add_routes, openapi.add_routes)
