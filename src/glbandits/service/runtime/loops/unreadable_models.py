"""What a loop says about a saved model that cannot be loaded."""

import logging

from glbandits.service.domain.model_snapshots import PublishedModel
from glbandits.service.runtime.loops.loop_documents import Unreadable

log = logging.getLogger(__name__)


class UnreadableModels:
    """Remembers a saved model that cannot be loaded until the loop has learned as much."""

    def __init__(self, loop_name: str) -> None:
        self._loop_name = loop_name
        self._unreadable: Unreadable | None = None

    def note(self, unreadable: Unreadable, learned_through: int) -> None:
        """Remember a model that cannot be loaded, and log the first one."""
        if self._unreadable is None:
            log.error(
                "Loop %s: %s. The loop continues from the model that has learned the decisions up to %d, and learns "
                "the rest of the log again.",
                *(self._loop_name, unreadable.what, learned_through),
            )
        self._unreadable = unreadable

    def check_caught_up(self, learned_through: int) -> None:
        """Forget the model if the loop has learned as much."""
        if self._unreadable is not None and learned_through >= self._unreadable.learned_through:
            log.info("Loop %s has learned the log again up to decision %d.", self._loop_name, learned_through)
            self._unreadable = None

    def warnings(self, model: PublishedModel) -> list[str]:
        """Return a sentence for each problem of the model that does not stop decisions."""
        unreadable, found = self._unreadable, []
        if unreadable is not None:
            found.append(
                f"loop {self._loop_name}: {unreadable.what}. The loop decides with an older model, and has learned the "
                f"log up to decision {model.learned_through} of {unreadable.learned_through}"
            )
        if model.invalidating:
            found.append(
                f"loop {self._loop_name}: {model.invalidating} decisions were set aside, because learning them would "
                "have made the model invalid"
            )
        return found
