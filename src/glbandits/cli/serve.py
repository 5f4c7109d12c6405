"""`glb serve`: the decision service. Its flags are the settings of the server."""

import inspect
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from glbandits.serving.runtime.logging_setup import set_up_logging
from glbandits.serving.server_settings import (
    DEFAULTS,
    FILE,
    KINDS,
    Settings,
    as_environment,
    description,
    read_settings,
)

if TYPE_CHECKING:  # imported when they are used, so that the first line is printed soon
    from starlette.applications import Starlette

    from glbandits.serving.storage.api_keys import NewKey

EXAMPLE: dict[str, Any] = {
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
    settings = read_settings({name: value for name, value in flags.items() if value is not None}, os.environ, file)
    typer.echo(f"Opening store {settings.store}")
    from glbandits.serving.http.server import address_of, first_key, listen, run_server

    set_up_logging(settings)
    with listen(settings.host, settings.port) as listening:
        first = first_key(settings)
        typer.echo("Loading models. Code that is not compiled yet is compiled in the background.")
        os.environ.update(as_environment(settings))  # from which each process reads them
        example = example_request(settings.model) if settings.model else EXAMPLE
        announced = partial(announce, address_of(listening), first, start_lines(settings), example)
        run_server(f"{__name__}:create_worker_app", settings, listening, announced)


def create_worker_app() -> "Starlette":
    """The application of a process, with the settings of the environment."""
    from glbandits.service_logs.evaluation import evaluate_log
    from glbandits.service_logs.optimisation import optimise_log
    from glbandits.serving.http.app import create_app
    from glbandits.serving.http.server import prepare_process

    settings = read_settings(environment=os.environ)
    set_up_logging(settings)
    optimiser = optimise_log if has_estimators() else None
    return prepare_process(create_app(settings, evaluate_log=evaluate_log, optimise_log=optimiser), settings)


def has_estimators() -> bool:
    """Whether the extra [lab] is installed."""
    try:
        return all(map(find_spec, ("polars", "sklearn")))
    except ModuleNotFoundError:
        return False


def announce(address: str, first: "NewKey | None", lines: Sequence[str], example: Mapping[str, Any]) -> None:
    """Print the address of the server, its key if it is new, some lines, and a command to try."""
    typer.echo(f"Serving at {address}")
    if first is not None:
        typer.echo(f"Key: {first.text}")
        typer.echo("It may do everything, and is shown only now. Make others with `glb keys create`.")
    for line in lines:
        typer.echo(line)
    typer.echo("Try:")
    typer.echo(f"  {curl_line(address, first.text if first is not None else None, example)}")


def example_request(path: str) -> dict[str, Any]:
    """A request with the fields that the feature map of a model file needs; the general one if it has no map."""
    from glbandits.bandit import Bandit
    from glbandits.features import Category, FeatureMap

    features = Bandit.load(path).features
    if not isinstance(features, FeatureMap):
        return EXAMPLE
    fields = {name: kind.example for name, kind in (features.arm.kinds | features.own.kinds).items()}
    block = features.per_arm_block
    names = features.kinds[block] if block is not None else None
    ids = names.values[:2] if isinstance(names, Category) else ("one", "two")
    return {
        "contextFeatures": [{name: kind.example for name, kind in features.context.kinds.items()}],
        "actions": [{"id": name, "features": [fields | ({} if block is None else {block: name})]} for name in ids],
    }


def start_lines(settings: Settings) -> list[str]:
    """When the first loop learns from a decision, by its saved configuration or else the settings; and its model."""
    from glbandits.serving.domain.loop_config import LoopConfig
    from glbandits.serving.runtime.loops.loop_documents import CONFIGURATION
    from glbandits.serving.storage.open_store import open_store

    name, window = settings.loops[0], settings.reward_window_seconds
    with closing(open_store(settings.store, durability=settings.durability)) as store:
        saved = store.latest_document(name, CONFIGURATION)
    model = []
    if settings.model:
        model = [f"Loops begin with the model of {settings.model}."]
    if saved is not None:
        window = msgspec.json.decode(saved.body, type=LoopConfig).reward_wait
        if settings.model:
            model = [f"Loop {name} is in the store and goes on with its own model: --model is for new loops."]
    shown = f"{window / 60:g} min" if window >= 60 else f"{window:g} s"
    line = f"Rewards are accepted for {shown}, then learned."
    if window != settings.reward_window_seconds:
        return [
            *model,
            f"{line} Loop {name} is in the store with this reward window, not {settings.reward_window}: "
            "--reward-window is for new loops. Change it with PATCH /v1/configuration.",
        ]
    return [*model, f"{line} For a trial: glb serve --reward-window 5s" if window >= 60 else line]


def curl_line(address: str, key: str | None, example: Mapping[str, Any] = EXAMPLE) -> str:
    """A line for a shell that has an action chosen."""
    shown = KEY_VARIABLE if key is None else key
    body = shlex.quote(json.dumps(example))
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
