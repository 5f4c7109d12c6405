"""`glb serve`: the decision service. Its flags are the settings of the server, each with its name."""

import inspect
import json
import os
import shlex
from typing import Annotated

import typer

from glbandits.cli.log_evaluation import evaluate_log
from glbandits.serving.http.apis import all_apis
from glbandits.serving.http.server import serve
from glbandits.serving.server_settings import DEFAULTS, FILE, KINDS, description, read_settings
from glbandits.serving.storage.api_keys import NewKey

EXAMPLE = {
    "contextFeatures": [{"hour": "morning"}],
    "actions": [
        {"id": "tea", "features": [{"hot": True, "price": 2.5}]},
        {"id": "cola", "features": [{"hot": False, "price": 2.0}]},
    ],
}
KEY_VARIABLE = '"$GLB_KEY"'
"""Stands for the key in what is printed, when it was printed at an earlier start."""


def serve_command(**flags: str | None) -> None:
    """Choose actions for programs that ask over HTTP, and learn from what comes of them.

    A setting is taken from its flag, or else from the environment (GLB_SERVE_PORT for --port), or else from the file
    that --settings names, or else it is the default.
    """
    file = flags.pop(FILE)
    given = {name: value for name, value in flags.items() if value is not None}
    serve(read_settings(given, os.environ, file), all_apis(evaluate_log), announce)


def announce(address: str, first: NewKey | None) -> None:
    """Print where the server is, its key if it is new, and a line to try."""
    typer.echo(f"Serving at {address}")
    if first is not None:
        typer.echo(f"Key: {first.text}")
        typer.echo("It may do everything, and is shown only now. Make others with `glb keys create`.")
    typer.echo("Try:")
    typer.echo(f"  {curl_line(address, first.text if first is not None else None)}")


def curl_line(address: str, key: str | None) -> str:
    """A line for a shell that has an action chosen."""
    shown = KEY_VARIABLE if key is None else key
    body = shlex.quote(json.dumps(EXAMPLE))
    return (
        f"curl -s {address}/personalizer/v1.0/rank -H Ocp-Apim-Subscription-Key:{shown} "
        f"-H Content-Type:application/json -d {body}"
    )


def _flag(name: str, meaning: str, default: str) -> inspect.Parameter:
    kind = Annotated[str | None, typer.Option("--" + name.replace("_", "-"), help=meaning, show_default=default)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _shown_default(name: str) -> str:
    value = DEFAULTS[name]
    return ",".join(value) or "none" if isinstance(value, tuple) else str(value)


def _flags() -> inspect.Signature:
    """A flag for each setting, for typer to read: the table of settings is the only one."""
    settings = [_flag(name, description(name), _shown_default(name)) for name in KINDS]
    return inspect.Signature([_flag(FILE, "A TOML file with settings.", "none"), *settings])


serve_command.__signature__ = _flags()  # type: ignore[attr-defined]
