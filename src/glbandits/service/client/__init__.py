"""A Python client for the API of the service."""

from glbandits.common.extras import needed_for

with needed_for("glbandits.service.client", "serve"):
    from glbandits.service.client.client import Client, decide_request
    from glbandits.service.client.connection import ServiceError

__all__ = ["Client", "ServiceError", "decide_request"]
