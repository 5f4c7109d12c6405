"""Guardrails over units that tests write into a store."""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from glbandits.service.domain.events import Decision, Event, Group
from glbandits.service.domain.groups.experiment import REWARD, Control, GuardrailAction, MetricSettings
from glbandits.service.domain.loop_config import SECOND, LoopConfig
from glbandits.service.runtime.loops.guardrails import LoopGuardrails
from glbandits.service.runtime.loops.loop_documents import CONFIGURATION
from glbandits.service.runtime.loops.unit_counter import GRACE
from glbandits.service.storage.event_store import EventStore
from tests.service.helpers import decision, metric, reward
from tests.service.runtime.loops.loop_helpers import Clock

LOOP, WINDOW, SHARE = "shop", 60.0, 0.2
LEARNED = 2**62
"""Of a model that has learned all decisions."""
RETURNED = MetricSettings(range=(0.0, 1.0), good="lower", window=WINDOW, action=GuardrailAction.FALLBACK)


REWARDS = MetricSettings(range=(0.0, 1.0), window=WINDOW, action=GuardrailAction.NONE)


def configuration(metrics: dict[str, MetricSettings] | None = None, **changed: Any) -> LoopConfig:
    compared = {REWARD: REWARDS} | ({"returned": RETURNED} if metrics is None else metrics)
    settings: dict[str, Any] = {"width": 2, "control": Control(share=SHARE), "metrics": compared}
    return LoopConfig(**settings | changed)


class GuardedLoop:
    """The guardrails of a loop without a model.

    Args:
        store: has the log.
        settings: settings of the loop beside those of `configuration`.
    """

    def __init__(self, store: EventStore, **settings: Any) -> None:
        self.store, self.clock, self.units = store, Clock(), 0
        self.configuration, self.assigned_since = LoopConfig(), 0
        self.configure(**settings)
        self.guardrails = self.opened()

    def opened(self) -> LoopGuardrails:
        """The guardrails as another process, or one after a restart, has them."""
        return LoopGuardrails(LOOP, self.store, self.clock)

    def configure(self, **settings: Any) -> None:
        before, self.configuration = self.configuration, configuration(**settings)
        self.store.save_document(LOOP, CONFIGURATION, self.clock(), msgspec.json.encode(self.configuration))
        if before.assignment != self.configuration.assignment:
            self.assigned_since = self.store.newest_version(LOOP, CONFIGURATION)

    def write(self, returned: Iterable[float | None], *, treated: bool | None = None, **changed: Any) -> list[Decision]:
        """Write a unit for each number, each with a decision. None: the unit has no number."""
        made, events = list[Decision](), list[Event]()
        for number in returned:
            name, now = f"unit {self.units}", self.clock()
            is_treated = self.units % 5 > 0 if treated is None else treated
            group = Group.TREATMENT if is_treated else Group.CONTROL
            fields = {"unit": name, "group": group, "control_share": SHARE} | changed
            made.append(decision(name, now, loop=LOOP, **fields))
            events.append(made[-1])
            if number is not None:
                events.append(metric(name, "returned", number, now, loop=LOOP, window=round(WINDOW * SECOND)))
                events.append(reward(name, now, number, loop=LOOP))
            self.units += 1
        self.store.append_blocking(events)
        return made

    def write_harm(self, units: int, seed: int = 0) -> None:
        """Units of treatment return 60 %, those of control 30 %."""
        rng = np.random.default_rng(seed)
        self.write(float(rng.random() < (0.6 if (self.units + number) % 5 else 0.3)) for number in range(units))

    def wait(self) -> None:
        """Let the windows of all units close."""
        self.clock.wait(WINDOW + GRACE)

    def look(self, learned_through: int = LEARNED) -> None:
        """Look until nothing is left."""
        self.guardrails.look(self.configuration, self.assigned_since, learned_through)
        while self.guardrails.is_behind:
            self.guardrails.look(self.configuration, self.assigned_since, learned_through)

    def is_stopped(self) -> bool:
        return self.guardrails.fallback

    def units_counted(self, name: str = "returned") -> int:
        """The units that are counted, also in a block that is not full."""
        comparison = self.guardrails.state.metrics[name]
        return comparison.difference().units + len(comparison.open_block)
