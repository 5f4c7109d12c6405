"""A site for requests of the API v1."""

from pathlib import Path
from typing import Any

import msgspec

from glbandits.service.domain.events import Mode
from glbandits.service.domain.loop_config import LoopConfig
from tests.service.http.served_site import ServedSite

WIDTH = 2
ARMS = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]


class Site(ServedSite):
    """With short vectors and a reward window of 10 s."""

    def __init__(self, folder: Path, *, scopes: tuple[str, ...] = ("rank", "reward"), **settings: Any) -> None:
        configuration = LoopConfig(width=WIDTH, reward_wait=10.0, exploration=0.3)
        super().__init__(folder, loops=("default", "shop"), configuration=configuration, narrow=scopes, **settings)

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
        """Close the reward windows of all decisions so far, and learn them."""
        self.now += 11_000_000
        self.service.loop(loop).learn()

    def set_mode(self, mode: Mode) -> None:
        self.configure(mode=mode)

    def configure(self, **changed: Any) -> None:
        """Change the configuration of the default loop."""
        loop = self.service.loop("default")
        loop.configure(msgspec.structs.replace(loop.configuration, **changed))
