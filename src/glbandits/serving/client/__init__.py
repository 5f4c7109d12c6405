"""A client for the service's own API."""

from glbandits.serving.client.client import Client, question
from glbandits.serving.client.connection import ServiceError

__all__ = ["Client", "ServiceError", "question"]
