"""The decision service: chooses actions for HTTP clients, and learns from their rewards."""

from typing import TYPE_CHECKING, Any

from glbandits.common.extras import needed_for

if TYPE_CHECKING:
    from glbandits.service.http.app import create_app
    from glbandits.service.server_settings import Settings

__all__ = ["Settings", "create_app"]


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so that the domain modules do not need Starlette."""
    with needed_for("glbandits.service", "serve"):
        if name == "create_app":
            from glbandits.service.http.app import create_app

            return create_app
        if name == "Settings":
            from glbandits.service.server_settings import Settings

            return Settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
