"""A real server with a flag of each type, and the code of the page about flags."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.service.http.servers.server_process import Running, running

PAGE = Path(__file__).parents[3] / "docs/flags.md"
VALUES: dict[str, Any] = {
    "boolean": True,
    "string": "text",
    "integer": 3,
    "float": 2.5,
    "object": {"size": 4, "parts": ["a"]},
}
"""The value of the only variant of each flag."""


def code_of_page(language: str) -> list[str]:
    """The blocks of code in docs/flags.md in one language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def variants_of(**values: Any) -> dict[str, Any]:
    return {"variants": {name: {"value": value} for name, value in values.items()}}


@contextmanager
def flags_running(folder: Path, store: str | None = None, **settings: str) -> Iterator[Running]:
    """A server with the flags of `VALUES`, and `banner` with three variants."""
    loops = ",".join(["default", "banner", *VALUES])
    with running(folder, "--loops", loops, store=store, **settings) as server:
        for name, value in VALUES.items():
            configure(server, name, variants_of(only=value))
        configure(server, "banner", variants_of(plain="Welcome", sale="20 % off", new="New") | {"rewardWait": "60s"})
        yield server


def configure(server: Running, loop: str, settings: dict[str, Any]) -> None:
    """Change the settings of a loop."""
    reply = server.ask("PATCH", f"/loops/{loop}/v1/configuration", settings)
    assert reply.status == 200, reply.body
