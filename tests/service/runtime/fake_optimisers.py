"""Fake optimisers. They are called in another process, so they are functions of a module."""

# ruff: noqa: ARG001

import time

from msgspec.structs import replace

from glbandits.service.domain.model_snapshots import fresh_model
from glbandits.service.domain.optimisation_rules import Look, LookVerdict, OptimisationResult
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.storage.event_store import EventStore


def wait(store: EventStore, loop_name: str, *, learned_through: int) -> OptimisationResult:
    return OptimisationResult(Look(verdict=LookVerdict.WAIT, sentence=f"Wait for {loop_name}."))


def promote(store: EventStore, loop_name: str, *, learned_through: int) -> OptimisationResult:
    """Promote a policy with a model that has learned nothing, after the loop has learned 20 more decisions."""
    while (model := store.latest_model(loop_name)) is None or model.sequence < learned_through + 40:  # and 20 rewards
        time.sleep(0.01)
    chosen = replace(Loop(loop_name, store, lambda: 0).configuration, policy="lin-ucb", settings={})
    look = Look(verdict=LookVerdict.PROMOTE, sentence="Promoted lin-ucb.")
    return OptimisationResult(look, chosen, fresh_model(chosen).to_bytes())


def fail(store: EventStore, loop_name: str, *, learned_through: int) -> OptimisationResult:
    raise ValueError(f"no result for {loop_name}")


def sleep(store: EventStore, loop_name: str, *, learned_through: int) -> OptimisationResult:
    time.sleep(600)
    raise AssertionError
