"""A site for requests of Personalizer's API."""

from pathlib import Path
from typing import Any

from glbandits.service.domain.loop_config import LoopConfig
from tests.service.http.served_site import ServedSite

V1 = "/personalizer/v1.0"
ACTIONS: list[dict[str, Any]] = [
    {"id": "pasta", "features": [{"taste": "salty", "spice": 2.5}, {"nutrition": {"calories": 400, "vegan": False}}]},
    {"id": "juice", "features": [{"taste": "sweet"}]},
    {"id": "salad", "features": [{"taste": "sour"}]},
]
CONTEXT = [{"timeOfDay": "night"}, {"device": {"mobile": True}}]


class Site(ServedSite):
    """With two loops, and a second key for rewards alone."""

    def __init__(
        self,
        folder: Path,
        *,
        rate: float = 0.0,
        **settings: Any,
    ) -> None:
        super().__init__(
            folder,
            loops=("default", "shop"),
            configuration=LoopConfig(width=32, reward_wait=600.0),
            now=1_700_000_000_000_000,
            narrow=("reward",),
            rate_limit=rate,
            **settings,
        )
        self.reward_key = self.narrow_key

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
        """Close the reward windows of all decisions so far, and learn them; returns how many."""
        self.now += 601_000_000
        return self.service.loop(loop).learn()
