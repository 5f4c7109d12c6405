"""What `verify` finds out, and what it makes of a log that changes while it looks."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from glbandits.serving.events import Mode
from glbandits.serving.verify import verify
from tests.serving.worlds import Clock, ask, small_loop


@pytest.mark.parametrize(("shown", "sound"), [(2, True), (1, False)])
def test_without_a_model_the_baseline_must_have_been_shown(tmp_path: Path, shown: int, sound: bool) -> None:
    loop, store = small_loop(tmp_path, Clock(), mode=Mode.APPRENTICE)
    made = ask(loop, "e", "noon", slot="top", baseline=2)
    assert (made.shown, made.baseline) == (2, 2)
    store.append([replace(made, shown=shown)])
    assert verify(store, "default").sound == sound
