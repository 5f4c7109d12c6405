"""Python clients for the API of the service, blocking and for asyncio. They need neither NumPy nor Numba."""

from glbandits.common.extras import needed_for

with needed_for("glbandits.service.client", "client"):
    from glbandits.service.client.calls import ServiceError, decide_request, metrics_request, reward_request
    from glbandits.service.client.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "ServiceError", "decide_request", "metrics_request", "reward_request"]
