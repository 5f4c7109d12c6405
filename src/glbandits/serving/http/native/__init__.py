"""Our own API: decisions among vectors of numbers, rewards, batches of both, and a look into every loop."""

from glbandits.serving.http.native.routes import add_routes

__all__ = ["add_routes"]
