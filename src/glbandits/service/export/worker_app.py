"""The ASGI application of a server process: the service, with evaluations of its logs."""

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from glbandits.service.runtime.logging_setup import set_up_logging
from glbandits.service.server_settings import read_settings

if TYPE_CHECKING:
    from starlette.applications import Starlette


def create_worker_app() -> "Starlette":
    """Create the application with the settings of the environment. uvicorn calls this function in each process."""
    from glbandits.service.export.evaluation import evaluate_log
    from glbandits.service.export.optimisation import optimise_log
    from glbandits.service.http.app import create_app
    from glbandits.service.http.server import prepare_process

    settings = read_settings(environment=os.environ)
    set_up_logging(settings)
    optimiser = optimise_log if has_estimators() else None
    return prepare_process(create_app(settings, evaluate_log=evaluate_log, optimise_log=optimiser), settings)


def has_estimators() -> bool:
    """Return whether the packages of the extra [lab] that estimators need are installed."""
    try:
        return all(map(find_spec, ("polars", "sklearn")))
    except ModuleNotFoundError:
        return False
