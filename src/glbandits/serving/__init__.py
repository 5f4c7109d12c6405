"""The decision service: chooses actions for HTTP clients, and learns from their rewards."""

from typing import TYPE_CHECKING, Any

from glbandits.extras import needed_for

if TYPE_CHECKING:
    from glbandits.serving.http.app import create_app
    from glbandits.serving.server_settings import Settings

__all__ = ["Settings", "create_app"]


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so that the domain modules do not need Starlette."""
    if name == "create_app":
        with needed_for("glbandits.serving.create_app", "serve"):
            from glbandits.serving.http.app import create_app

        return create_app
    if name == "Settings":
        with needed_for("glbandits.serving.Settings", "serve"):
            from glbandits.serving.server_settings import Settings

        return Settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
