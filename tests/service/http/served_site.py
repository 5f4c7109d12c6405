"""An application that serves requests without a network. Tests set the clock, and call `learn` themselves."""

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec

from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import FirstModel
from glbandits.service.http.app import app_of
from glbandits.service.http.auth import Authenticator
from glbandits.service.http.endpoint import Endpoint
from glbandits.service.http.endpoints import ENDPOINTS
from glbandits.service.http.site import Site
from glbandits.service.runtime.rate_limit import RateLimit
from glbandits.service.runtime.service import Service
from glbandits.service.server_settings import Settings
from glbandits.service.storage.api_keys import SCOPES, Keys
from glbandits.service.storage.sqlite_store import SqliteStore


class ServedSite:
    """A site over a fresh store, with a key for everything and a key for `narrow` scopes."""

    def __init__(
        self,
        folder: Path,
        *,
        loops: tuple[str, ...] = ("default",),
        configuration: LoopConfig | None = None,
        first_model: FirstModel | None = None,
        now: int = 1_000_000,
        narrow: tuple[str, ...] = ("rank", "reward"),
        endpoints: Sequence[Endpoint] = ENDPOINTS,
        **settings: Any,
    ) -> None:
        self.now = now
        store = SqliteStore(folder / "events.db")
        self.service = Service(store, loops, clock=lambda: self.now, first_model=first_model)
        if configuration is not None:
            for loop in self.service.loops.values():
                loop.configure(configuration)
        keys = Keys(store, clock=lambda: self.now)
        self.key, self.narrow_key = keys.create("all", tuple(SCOPES)).text, keys.create("narrow", narrow).text
        server = Settings(store=str(folder / "events.db"), **settings)
        self.site = Site(server)
        self.site.service = self.service
        self.site.authenticator = Authenticator(keys.live, rate_limit=RateLimit(self.site.settings.rate_limit))
        self.app = app_of(self.site, endpoints=endpoints)
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app),
            base_url="http://test",
            headers={"authorization": f"Bearer {self.key}"},
        )

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the event loop of the service."""
        return self._runner.run(work)

    def ask(self, method: str, path: str, content: Any = None, **more: Any) -> httpx.Response:
        """Send a request. Content is sent as JSON unless it is bytes."""
        return self._runner.run(self.ask_async(method, path, content, **more))

    async def ask_async(self, method: str, path: str, content: Any = None, **more: Any) -> httpx.Response:
        """Send a request from a coroutine."""
        body = content if isinstance(content, bytes) or content is None else msgspec.json.encode(content)
        return await self._client.request(method, path, content=body, **more)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._client.aclose())
        self._runner.run(self.site.close())
        self._runner.run(self.service.close())
        self._runner.close()
