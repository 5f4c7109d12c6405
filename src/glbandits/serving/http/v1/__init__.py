"""Our own API: decisions among vectors of numbers, rewards, batches of both, and a look into every loop."""

from glbandits.serving.http.v1.routes import add_routes

__all__ = ["add_routes"]
