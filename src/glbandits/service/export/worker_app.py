"""The ASGI application of a server process: the service, with evaluations of its logs."""

import os
from typing import TYPE_CHECKING

from glbandits.service.runtime.logging_setup import set_up_logging
from glbandits.service.server_settings import read_settings

if TYPE_CHECKING:
    from starlette.applications import Starlette


def create_worker_app() -> "Starlette":
    """Create the application with the settings of the environment. uvicorn calls this function in each process."""
    from glbandits.service.export.evaluation import evaluate_log
    from glbandits.service.http.app import create_app
    from glbandits.service.http.server import prepare_process

    settings = read_settings(environment=os.environ)
    set_up_logging(settings)
    return prepare_process(create_app(settings, evaluate_log=evaluate_log), settings)
