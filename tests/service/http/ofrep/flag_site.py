"""A site with flags."""

from pathlib import Path
from typing import Any

import httpx
from msgspec.structs import replace

from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.variants import Variant
from tests.service.http.served_site import ServedSite

PATH = "/ofrep/v1/evaluate/flags"
COLOURS = {"red": Variant(value="#f00"), "green": Variant(value="#0f0"), "blue": Variant(value="#00f")}


class FlagSite(ServedSite):
    """A site with the flag `colour`, and the loop `plain` that is no flag. The narrow key may only evaluate."""

    def __init__(self, folder: Path, *, loops: tuple[str, ...] = ("colour", "plain"), **settings: Any) -> None:
        configuration = LoopConfig(width=32, reward_wait=10.0, sticky_for=60.0)
        super().__init__(folder, loops=loops, configuration=configuration, narrow=("evaluate",), **settings)
        self.configure(variants=COLOURS)

    def configure(self, loop: str = "colour", **changed: Any) -> None:
        """Change the configuration of a loop."""
        self.service.loop(loop).reconfigure(lambda current: replace(current, **changed))

    def try_evaluate(self, unit: str | None, flag: str = "colour", **features: Any) -> httpx.Response:
        """The response to an evaluation."""
        key = {} if unit is None else {"targetingKey": unit}
        return self.ask("POST", f"{PATH}/{flag}", {"context": key | features})

    def evaluate(self, unit: str, flag: str = "colour", **features: Any) -> Any:
        """The evaluation of a flag."""
        reply = self.try_evaluate(unit, flag, **features)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def event(self, evaluation: Any, flag: str = "colour") -> Any:
        """The event of an evaluation in the log."""
        reply = self.ask("GET", f"/loops/{flag}/v1/events/{evaluation['metadata']['eventId']}")
        assert reply.status_code == 200, reply.text
        return reply.json()

    def decisions(self, flag: str = "colour") -> int:
        """The number of decisions in the log."""
        counts = self.ask("GET", f"/loops/{flag}/v1/status").json()["counts"]["decisions"]
        return int(counts["accepted"])

    def learn(self, seconds: float = 11.0, loop: str = "colour") -> None:
        """Let time pass, and learn."""
        self.now += round(seconds * 1_000_000)
        self.service.loop(loop).learn()
