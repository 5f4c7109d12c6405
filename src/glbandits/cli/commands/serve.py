"""`glb serve`: the Rank/Reward service. Its options are the settings that people type."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glbandits.common.extras import needed_for
from glbandits.service.http.start_message import (
    curl_line,
    example_request,
    loop_address,
    no_key_line,
    start_lines,
)
from glbandits.service.runtime.logging_setup import set_up_logging
from glbandits.service.server_settings import (
    DEFAULTS,
    Settings,
    description,
    read_settings,
)

if TYPE_CHECKING:
    from glbandits.service.storage.api_keys import NewKey

STOPPED = "Stopped. All events and models are stored."
INCOMPLETE = "Stopped before the shutdown was complete. Acknowledged events are stored; the log says what is lost."


def _setting(name: str) -> Any:
    """Return the option of a setting. Without the option, the setting comes from the environment or the file."""
    value = DEFAULTS[name]
    shown = ",".join(value) if isinstance(value, tuple) else str(value)
    return typer.Option(help=description(name), show_default=shown or "none")


def serve_command(
    *,
    settings: Annotated[
        str | None, typer.Option(metavar="FILE", help="A TOML file with settings.", show_default="none")
    ] = None,
    host: Annotated[str | None, _setting("host")] = None,
    port: Annotated[int | None, _setting("port")] = None,
    store: Annotated[str | None, _setting("store")] = None,
    model: Annotated[str | None, _setting("model")] = None,
    loops: Annotated[str | None, _setting("loops")] = None,
    reward_window: Annotated[str | None, _setting("reward_window")] = None,
    log_level: Annotated[str | None, _setting("log_level")] = None,
) -> None:
    """Choose actions for programs that send rank requests over HTTP, and learn from their rewards.

    A setting comes from its option, or else from the environment (GLB_SERVE_PORT for --port), or else from the file of
    --settings, or else from the default. Settings without an option, such as GLB_SERVE_MAX_BODY, are listed in
    docs/service-settings.md.
    """
    options = {
        "host": host,
        "port": port,
        "store": store,
        "model": model,
        "loops": loops,
        "reward_window": reward_window,
        "log_level": log_level,
    }
    given = {name: value for name, value in options.items() if value is not None}
    run(read_settings(given, os.environ, settings))


def run(settings: Settings) -> None:
    """Run the server until a signal ends it. Exits with 1 if the shutdown was not complete."""
    store = re.sub(r"://[^/@]*@", "://", settings.store)  # without a password
    with needed_for("glb serve", "serve"):
        import uvicorn  # noqa: F401
    typer.echo(f"Opening store {store.partition('?')[0]}")
    with needed_for("glb serve", "serve"):  # slow: they import NumPy
        from glbandits.service.http.server import address_of, first_key, listen, run_server
        from glbandits.service.http.site import new_loop_start

    set_up_logging(settings)
    with listen(settings.host, settings.port) as listening:
        # Everything that can fail comes before `first_key`: the key is shown only if the server starts.
        new_loop_start(settings)
        key = first_key(settings)
        typer.echo("Loading models. Code that is not compiled yet is compiled in the background.")
        lines = [] if key is not None else [no_key_line(settings.store)]
        lines += start_lines(settings)
        on_start = partial(print_start, address_of(listening), settings.loops[0], key, lines, example_request(settings))
        is_complete = run_server(settings, listening, on_start)
    with suppress(OSError):  # the reader of the output may have ended
        typer.echo(STOPPED if is_complete else INCOMPLETE)
    if not is_complete:
        raise typer.Exit(1)


def print_start(
    address: str, loop_name: str, key: "NewKey | None", lines: Sequence[str], example: Mapping[str, Any]
) -> None:
    """Print the address of the server, its key if the key is new, the lines, and a command to try the loop."""
    typer.echo(f"Serving at {address}")
    if key is not None:
        typer.echo(f"Key: {key.text}")
        typer.echo("This key has all scopes and is not shown again. Create others with `glb store keys create`.")
    for line in lines:
        typer.echo(line)
    typer.echo("Try:")
    typer.echo(f"  {curl_line(loop_address(address, loop_name), None if key is None else key.text, example)}")
