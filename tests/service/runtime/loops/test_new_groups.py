"""When units get new groups, and count again."""

from pathlib import Path

from msgspec.structs import replace

from glbandits.service.domain.groups.experiment import Control, GuardrailAction, MetricSettings
from glbandits.service.domain.loop_config import SECOND
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.loops.unit_counter import GRACE
from tests.service.helpers import metric
from tests.service.runtime.loops.loop_helpers import CONTEXTS, Clock, ask, small_loop

WINDOW = 5.0
RETURNED = MetricSettings(range=(0.0, 1.0), good="lower", window=WINDOW, action=GuardrailAction.FALLBACK)


def hash_of(loop: Loop) -> str:
    return ask(loop, "event", CONTEXTS[0], unit="ann").unit


def is_stopped(loop: Loop) -> bool:
    return loop.guardrails.fallback


def test_units_are_new_ones_after_a_change_of_the_control_group(tmp_path: Path) -> None:
    loop, _ = small_loop(tmp_path, Clock())
    without = hash_of(loop)
    loop.configure(replace(loop.configuration, control=Control(share=0.2)))
    first = hash_of(loop)
    loop.configure(replace(loop.configuration, control=Control(share=0.4), exploration=0.1))
    assert hash_of(loop) == first != without
    loop.configure(replace(loop.configuration, control=Control(share=0.4, show="uniform")))
    second = hash_of(loop)
    loop.configure(replace(loop.configuration, control=None))
    assert hash_of(loop) == without
    loop.configure(replace(loop.configuration, control=Control(share=0.4, show="uniform")))
    assert len({without, first, second, hash_of(loop)}) == 4


def test_known_units_count_again_after_a_fallback(tmp_path: Path) -> None:
    clock = Clock()
    loop, store = small_loop(tmp_path, clock, control=Control(share=0.5), metrics={"returned": RETURNED})

    def visit(turn: int, *, harmful: bool) -> int:
        """Let 320 known units come, and return how many of them are counted."""
        for number in range(320):
            made = ask(loop, f"{turn} {number}", CONTEXTS[0], unit=f"unit {number}")
            returned = float(harmful and made.group == "treatment")
            more = {"loop": loop.name, "window": round(WINDOW * SECOND)}
            store.append_blocking([made, metric(made.event_id, "returned", returned, clock(), **more)])
        clock.wait(WINDOW + GRACE)
        loop.learn()
        while loop.guardrails.is_behind:
            loop.look_at_guardrails()
        return loop.guardrails.state.metrics["returned"].difference().units

    assert visit(0, harmful=True) == 320
    assert is_stopped(loop)
    loop.guardrails.resume()
    assert visit(1, harmful=False) == 320
    assert not is_stopped(loop)
    assert Loop("default", store, clock).guardrails.state == loop.guardrails.state
