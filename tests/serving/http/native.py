"""A service with our own API, asked without a network."""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec

from glbandits.serving.domain.events import Mode
from glbandits.serving.domain.loop_config import LoopConfig
from glbandits.serving.http import dashboard, openapi, v1
from glbandits.serving.http.application import Application
from glbandits.serving.http.auth import Authenticator, Limits
from glbandits.serving.http.problem_details import ProblemApi
from glbandits.serving.http.routing import Routes
from glbandits.serving.runtime.service import Service
from glbandits.serving.storage.api_keys import Keys
from glbandits.serving.storage.sqlite_store import SqliteStore
from tests.serving.http.in_process import InProcess

WIDTH = 2
ARMS = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]


class Site:
    """The application over a fresh store. The clock stands until it is moved; nothing is learned until `learn`."""

    def __init__(
        self, folder: Path, *, limits: Limits | None = None, scopes: tuple[str, ...] = ("rank", "reward")
    ) -> None:
        self.now = 1_000_000
        store = SqliteStore(folder / "events.db")
        self.service = Service(store, ("default", "a/b"), clock=lambda: self.now)
        for loop in self.service.loops.values():
            loop.configure(LoopConfig(width=WIDTH, reward_wait=10.0, exploration=0.3))
        keys = Keys(store, clock=lambda: self.now)
        self.key = keys.create("all", ("rank", "reward", "read", "admin")).text
        self.narrow_key = keys.create("narrow", scopes).text
        guard, routes = Authenticator(keys.live, limits=limits), Routes()
        v1.add_routes(routes, self.service, guard)
        dashboard.add_routes(routes, self.service, guard)
        openapi.add_routes(routes, self.service, guard)
        self.application = Application(routes, ProblemApi(guard))
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(
            transport=InProcess(self.application),
            base_url="http://test",
            headers={"authorization": f"Bearer {self.key}"},
        )

    def ask(self, method: str, path: str, content: Any = None, **more: Any) -> httpx.Response:
        """Send a request; content is sent as JSON unless it is bytes."""
        body = content if isinstance(content, bytes) else msgspec.json.encode(content)
        sent = self._client.request(method, path, content=None if content is None else body, **more)
        return self._runner.run(_awaited(sent))

    def decide(self, **changed: Any) -> Any:
        """A decision among ARMS."""
        reply = self.ask("POST", "/v1/decide", {"arms": ARMS} | changed)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def refusal(self, method: str, path: str, content: Any = None, **more: Any) -> tuple[int, str]:
        """The status and the detail of a refused request."""
        reply = self.ask(method, path, content, **more)
        problem = reply.json()
        assert reply.headers["content-type"] == "application/problem+json"
        assert problem["status"] == reply.status_code
        return reply.status_code, problem["detail"]

    def learn(self, loop: str = "default") -> None:
        """Let the wait of all decisions so far be over, and learn them."""
        self.now += 11_000_000
        self.service.loop(loop).learn()

    def set_mode(self, mode: Mode) -> None:
        """Who decides from now on."""
        loop = self.service.loop("default")
        loop.configure(msgspec.structs.replace(loop.configuration, mode=mode))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
        self.service.close()


async def _awaited(sent: Any) -> httpx.Response:
    reply: httpx.Response = await sent
    return reply
