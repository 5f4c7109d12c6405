"""A service with Personalizer's contract, asked without a network."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec

from glbandits.serving.domain.loop_config import LoopConfig
from glbandits.serving.http.application import Application
from glbandits.serving.http.auth import Authenticator
from glbandits.serving.http.personalizer import EvaluateLog, add_routes
from glbandits.serving.http.problem_details import ProblemApi
from glbandits.serving.http.routing import Routes
from glbandits.serving.runtime.rate_limit import RateLimit
from glbandits.serving.runtime.service import Service
from glbandits.serving.storage.api_keys import Keys
from glbandits.serving.storage.sqlite_store import SqliteStore
from tests.serving.http.in_process import InProcess

V1, PREVIEW = "/personalizer/v1.0", "/personalizer/v1.1-preview.3"
ACTIONS: list[dict[str, Any]] = [
    {"id": "pasta", "features": [{"taste": "salty", "spice": 2.5}, {"nutrition": {"calories": 400, "vegan": False}}]},
    {"id": "juice", "features": [{"taste": "sweet"}]},
    {"id": "salad", "features": [{"taste": "sour"}]},
]
CONTEXT = [{"timeOfDay": "night"}, {"device": {"mobile": True}}]


class Site:
    """The application over a fresh store. The clock stands until it is moved; nothing is learned until `learn`."""

    def __init__(self, folder: Path, *, evaluate_log: EvaluateLog | None = None, rate: float = 0.0) -> None:
        self.now = 1_700_000_000_000_000
        store = SqliteStore(folder / "events.db")
        self.service = Service(store, ("default", "shop"), clock=lambda: self.now)
        for loop in self.service.loops.values():
            loop.configure(LoopConfig(width=32, reward_wait=600.0))
        keys = Keys(store, clock=lambda: self.now)
        self.key, self.reward_key = keys.create("all").text, keys.create("narrow", ("reward",)).text
        guard, routes = Authenticator(keys.live, rate_limit=RateLimit(rate)), Routes()
        add_routes(routes, self.service, guard, evaluate_log)
        self.application = Application(routes, ProblemApi(guard))
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(
            transport=InProcess(self.application),
            base_url="http://test",
            headers={"ocp-apim-subscription-key": self.key},
        )

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something in the event loop of the service."""
        return self._runner.run(work)

    def ask(self, method: str, path: str, content: Any = None, **more: Any) -> httpx.Response:
        """Send a request; content is sent as JSON unless it is bytes."""
        return self._runner.run(self.asked(method, path, content, **more))

    async def asked(self, method: str, path: str, content: Any = None, **more: Any) -> httpx.Response:
        """The same, for who is in the event loop."""
        body = content if isinstance(content, bytes) or content is None else msgspec.json.encode(content)
        return await self._client.request(method, path, content=body, **more)

    def rank(self, base: str = V1, **changed: Any) -> Any:
        """A decision among ACTIONS."""
        reply = self.ask("POST", f"{base}/rank", {"contextFeatures": CONTEXT, "actions": ACTIONS} | changed)
        assert reply.status_code == 201, reply.text
        return reply.json()

    def refusal(self, method: str, path: str, content: Any = None, **more: Any) -> tuple[int, str, str]:
        """The status, the fine code and the message of a refused request."""
        reply = self.ask(method, path, content, **more)
        error = reply.json()["error"]
        assert set(error) == {"code", "message", "target", "details", "innerError"}
        assert reply.headers["x-ms-error-code"] == error["innerError"]["code"]
        return reply.status_code, error["innerError"]["code"], error["message"]

    def learn(self, loop: str = "default") -> int:
        """Let the wait of all decisions so far be over, and learn them; says how many."""
        self.now += 601_000_000
        return self.service.loop(loop).learn()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
        self.service.close()
