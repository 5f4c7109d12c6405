"""Runs due looks of the auto-optimisation, each in another process."""

import logging
import threading
from contextlib import closing
from typing import Protocol

import msgspec

from glbandits.bandit import Bandit
from glbandits.common.errors import GlbanditsError, InvalidInput
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.optimisation_rules import OPTIMISATION, Look, LookVerdict, OptimisationResult, next_look
from glbandits.service.domain.request_features import encoder_of
from glbandits.service.runtime.background_process import Stopped, run_in_process
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.replay.relearning import relearned
from glbandits.service.runtime.service import Service
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.open_store import open_store

log = logging.getLogger(__name__)

NO_OPTIMISER = (
    "auto_optimisation needs the estimators of the extra [lab], which are not installed. Install them "
    "(pip install 'glbandits[lab]') and start `glb serve` again."
)


class OptimiseLog(Protocol):
    """Compares candidates with the running policy of a loop.

    Called in another process, so it must be picklable.
    """

    def __call__(self, store: EventStore, loop_name: str, *, learned_through: int) -> OptimisationResult:
        """Return the result of a look.

        Its model, if any, has learned the decisions up to `learned_through`.
        """


class AutoOptimisation:
    """Runs the looks that are due, if this process is the one that learns.

    `run_due` belongs to one thread.

    Args:
        service: has the loops.
        optimise_log: does a look; None if the estimators are not installed. Then looks fail.
        address: the address of the store, which the other process opens.
    """

    def __init__(self, service: Service, optimise_log: OptimiseLog | None, address: str) -> None:
        self._service, self._optimise_log, self._address = service, optimise_log, address
        self._stop = threading.Event()

    def close(self) -> None:
        """Cancel a running look. Does not block; `run_due` returns soon."""
        self._stop.set()

    def run_due(self) -> None:
        """Run the looks that are due, one after another. Blocks until they are done or cancelled."""
        for loop in self._service.loops.values():
            if not self._stop.is_set() and self._is_due(loop) and self._service.learns():
                self._look(loop, loop.configuration, loop.published.learned_through)

    def _is_due(self, loop: Loop) -> bool:
        if not loop.configuration.auto_optimisation:
            return False
        last = self._service.store.latest_document(loop.name, OPTIMISATION)
        due = next_look(loop.configuration, last.timestamp if last else None)
        return due is not None and due <= self._service.clock()

    def _look(self, loop: Loop, before: LoopConfig, learned_through: int) -> None:
        try:
            if self._optimise_log is None:
                raise InvalidInput(NO_OPTIMISER)
            work = (self._optimise_log, self._address, loop.name, learned_through)
            optimised = run_in_process(self._stop, _optimise, *work)
        except Stopped:
            return
        except Exception as error:
            log.error("Loop %s: auto-optimisation failed", loop.name, exc_info=error)
            why = str(error) if isinstance(error, GlbanditsError) else "The server's log has the error."
            optimised = OptimisationResult(Look(verdict=LookVerdict.FAILED, sentence=f"The look failed: {why}"))
        body = {OPTIMISATION: msgspec.json.encode(optimised.look)}
        if optimised.configuration is None:
            self._service.store.save_documents(loop.name, self._service.clock(), body, expected_versions={})
        elif not self._promote(loop, optimised.configuration, optimised.model, body, before, learned_through):
            log.info("Loop %s was changed during its auto-optimisation, which starts again.", loop.name)
            return
        log.info("Loop %s: auto-optimisation: %s", loop.name, optimised.look.sentence)

    def _promote(
        self, loop: Loop, chosen: LoopConfig, model: bytes, body: dict[str, bytes], before: LoopConfig, learned: int
    ) -> bool:
        bandit = Bandit.from_bytes(model)
        encoder = encoder_of(bandit)

        def train_through(last: int) -> Bandit:
            nonlocal bandit, learned
            bandit = relearned(self._service.store, loop.name, bandit, encoder, learned, last)
            learned = last
            return bandit

        train_through(loop.published.learned_through)  # most of it now, because `promote` holds the lock of the loop
        return loop.promote(chosen, train_through, body, before=before)


def _optimise(optimise_log: OptimiseLog, address: str, loop_name: str, learned_through: int) -> OptimisationResult:
    with closing(open_store(address, durability="process")) as store:
        return optimise_log(store, loop_name, learned_through=learned_through)
