"""A Python client for the API of the service."""

from glbandits.extras import needed_for

with needed_for("glbandits.serving.client", "serve"):
    from glbandits.serving.client.client import Client, decide_request
    from glbandits.serving.client.connection import ServiceError

__all__ = ["Client", "ServiceError", "decide_request"]
