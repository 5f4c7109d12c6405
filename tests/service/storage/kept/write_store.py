"""Write the small store that is kept for each version of the tables.

Run it before the tables change: `python -m tests.service.storage.kept.write_store`.
"""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from glbandits.service.domain.events import DecisionRequest
from glbandits.service.domain.groups.experiment import Control, MetricSettings
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.request_features import encode_json_request
from glbandits.service.runtime.service import Service
from glbandits.service.storage.api_keys import Keys
from glbandits.service.storage.migrations import present_version
from glbandits.service.storage.sqlite_store import SqliteStore

FOLDER = Path(__file__).parent
CONFIGURATION = LoopConfig(
    width=4,
    reward_wait=10.0,
    control=Control(share=0.5),
    metrics={"margin": MetricSettings(range=(0.0, 1.0), window=60.0, default=0.0)},
)
DECISIONS = 80
KEY = "glb_kept"
"""The name of the API key."""


class Clock:
    """A clock that advances by a second at each call."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def __call__(self) -> int:
        self.now += 1_000_000
        return self.now


async def write(store: SqliteStore, clock: Clock) -> None:
    """Decide, reward, and learn, with units, groups and metrics."""
    service = Service(store, ("shop",), clock=clock, first_configuration=CONFIGURATION)
    loop = service.loop("shop")
    for number in range(DECISIONS):
        request = DecisionRequest(
            event_id=f"event-{number}",
            unit=f"user-{number % 40}",
            request=encode_json_request([{"hour": number % 24}], [{"tea": 1}, {"cola": 1}]),
            encoding="json",
            actions=("tea", "cola"),
            sticky=number % 2 == 0,
        )
        decision = (await service.decide("shop", request)).decision
        await service.reward("shop", decision.event_id, float(decision.shown == number % 2), key="first")
        await service.metrics("shop", decision.event_id, {"margin": 0.5})
        if number % 20 == 19:
            loop.learn()
    Keys(store, clock).create(KEY, ("read",))
    await service.close()


def main() -> None:
    """Write the store of the present version."""
    path = FOLDER / f"version_{present_version()}.db"
    path.unlink(missing_ok=True)
    asyncio.run(write(SqliteStore(path), Clock()))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")


if __name__ == "__main__":
    main()
