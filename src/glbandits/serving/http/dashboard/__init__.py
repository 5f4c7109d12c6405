"""The dashboard: a page that says whether a loop is learning, and the figures behind it."""

from glbandits.serving.http.dashboard.routes import OPERATIONS, add_routes

__all__ = ["OPERATIONS", "add_routes"]
