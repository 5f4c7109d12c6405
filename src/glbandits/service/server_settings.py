"""Settings of a server, from options, environment variables, a TOML file and defaults."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

import msgspec
from msgspec import Meta

from glbandits.common.errors import InvalidInput, UnknownName, lookup
from glbandits.service.domain.durations import LONGEST_WINDOW, parse_duration

LoopName: TypeAlias = Annotated[str, Meta(pattern=r"^(?!\.+$)[A-Za-z0-9._-]{1,64}$")]

PREFIX = "GLB_SERVE_"
"""Prefix of the environment variables: GLB_SERVE_PORT for `port`."""
FILE = "settings"
"""The option and variable with the path of the TOML file."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a server.

    Lists are written with commas in options and in the environment.
    """

    host: Annotated[str, Meta(min_length=1, description="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port to listen on; 0 for any free port.")] = 8711
    store: Annotated[
        str,
        Meta(min_length=1, description="The SQLite file, or the postgresql:// address, of the log, models and keys."),
    ] = "glb.db"
    model: Annotated[
        str, Meta(description="A file with a saved model, of `glb train` or Bandit.save. New loops start with it.")
    ] = ""
    durability: Annotated[
        Literal["process", "power"],
        Meta(description="What an acknowledged event survives: process (end of the process) or power (power failure)."),
    ] = "process"
    loops: Annotated[
        tuple[LoopName, ...],
        Meta(
            min_length=1,
            description="Loops to create, with names of up to 64 letters, digits, dots, dashes and underscores.",
        ),
    ] = ("default",)
    queue: Annotated[int, Meta(ge=1, description="Events in the write queue, at most; more get 503.")] = 10_000
    queue_bytes: Annotated[
        int, Meta(ge=1, description="Bytes of the decisions in the write queue, at most; more get 503.")
    ] = 256 * 1024 * 1024
    max_body: Annotated[int, Meta(ge=1024, description="Bytes of the body of a request, at most.")] = 256 * 1024
    max_actions: Annotated[int, Meta(ge=1, description="Actions of a decision with named features, at most.")] = 50
    max_dense_actions: Annotated[
        int, Meta(ge=1, description="Actions of a decision with vectors of numbers, at most.")
    ] = 1000
    max_features: Annotated[int, Meta(ge=1, description="Numbers in the vector of an action, at most.")] = 10_000
    max_connections: Annotated[
        int, Meta(ge=1, description="Open connections, at most; more get 503 and are closed.")
    ] = 1000
    reward_window: Annotated[
        str | float, Meta(description="The reward window of new loops: 5s, 10m, 2h, 1d, PT5M or a number of seconds.")
    ] = "10m"
    rate_limit: Annotated[
        float, Meta(ge=0, le=1e9, description="Requests a second of each key, at most; more get 429. 0 for no limit.")
    ] = 0.0
    cors_origins: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^https?://[^/*\s]+$")], ...],
        Meta(description="Origins, without a path, whose pages may call the service, like https://shop.example."),
    ] = ()
    log_format: Annotated[
        Literal["text", "json"], Meta(description="The format of the log on stderr: text or json.")
    ] = "text"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="The level of the log: debug (a line for every request), info, warning or error."),
    ] = "info"
    min_disk: Annotated[
        int, Meta(ge=0, description="Free MiB on the disk of the store, below which /readyz returns 503.")
    ] = 100
    shutdown_delay: Annotated[
        float,
        Meta(
            ge=0,
            le=600,
            description="Seconds after SIGTERM in which /readyz returns 503 and requests are still accepted.",
        ),
    ] = 0.0
    shutdown_grace: Annotated[
        int, Meta(ge=0, le=600, description="Seconds after the delay in which running requests may finish.")
    ] = 10

    @property
    def reward_window_seconds(self) -> float:
        """`reward_window` in seconds."""
        return parse_duration("reward_window", self.reward_window, at_most=LONGEST_WINDOW)

    def __post_init__(self) -> None:
        _ = self.reward_window_seconds
        for name in self.loops:
            if self.loops.count(name) > 1:
                raise InvalidInput(f"loops has the name {name!r} twice. Name each loop once", field="loops")


KINDS: dict[str, Any] = get_type_hints(Settings, include_extras=True)
"""The annotated type of each setting."""
DEFAULTS: dict[str, Any] = msgspec.structs.asdict(Settings())


def description(name: str) -> str:
    """Return the description of a setting."""
    return next(str(part.description) for part in KINDS[name].__metadata__ if isinstance(part, Meta))


def read_settings(
    options: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    file: str | os.PathLike[str] | None = None,
) -> Settings:
    """Read each setting from the options, else the environment, else the file, else the default.

    >>> read_settings({"port": "80"}, {"GLB_SERVE_PORT": "81", "GLB_SERVE_LOOPS": "shop,news"}, None).loops
    ('shop', 'news')
    >>> read_settings({}, {"GLB_SERVE_RATE_LIMT": "80"})
    Traceback (most recent call last):
    glbandits.common.errors.UnknownName: GLB_SERVE_RATE_LIMT: unknown setting 'rate_limt'; did you mean 'rate_limit'...
    """
    environment = dict(environment or {})
    path = file or environment.pop(PREFIX + FILE.upper(), None)
    given = [(f"{path}: {name}", name, value) for name, value in _table(path).items()]
    given += [
        (variable, variable.removeprefix(PREFIX).lower(), value)
        for variable, value in environment.items()
        if variable.startswith(PREFIX)
    ]
    given += [("--" + name.replace("_", "-"), name, value) for name, value in (options or {}).items()]
    return Settings(**{name: _checked(source, name, value) for source, name, value in given})


def _table(path: str | os.PathLike[str] | None) -> dict[str, Any]:
    try:
        return {} if path is None else tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} must be a TOML file with a line like port = 8711; {error}") from None


def _checked(source: str, name: str, value: Any) -> Any:
    """Convert a value to the type of its setting.

    Text, from options and the environment, is parsed.
    """
    try:
        kind = lookup("setting", name, KINDS)
    except UnknownName as error:
        raise UnknownName(f"{source}: {error}") from None
    if isinstance(value, str) and isinstance(DEFAULTS[name], tuple):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return msgspec.convert(value, kind, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        reason = "" if "matching regex" in str(error) else f": {error}"  # the description says it in words
        raise InvalidInput(f"{source} cannot be {value!r}{reason}. {description(name)}") from None
