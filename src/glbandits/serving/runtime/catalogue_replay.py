"""Make decisions from a catalogue again, each from the version that it was made from."""

from collections.abc import Sequence

import numpy as np

from glbandits.bandit import Bandit
from glbandits.serving.domain.catalogue_arms import CatalogueArm
from glbandits.serving.domain.events import Decision, Mode
from glbandits.serving.domain.served_catalogue import ServedCatalogue
from glbandits.serving.storage.event_store import EventStore

TOLERANCE = 1e-9
"""Relative difference of two probabilities that are the same: rounding depends on which arms bounds have ruled out."""


class CatalogueReplay:
    """All versions of the catalogue of a loop that the store can give again. It reads the store when it must."""

    def __init__(self, store: EventStore, loop_name: str) -> None:
        self._store, self._loop_name = store, loop_name
        self._version, self._whole_since = 0, 0
        self._arms: Sequence[CatalogueArm] = ()
        self._served: ServedCatalogue | None = None

    def has(self, decision: Decision) -> bool:
        """Whether a decision can be made again: it is not from a catalogue, or from a version that is whole."""
        if decision.catalogue is None:
            return True
        if decision.catalogue.version > self._version:
            self._version, head, self._arms = self._store.catalogue_changes(self._loop_name, 0)
            self._whole_since = head.whole_since
        return self._whole_since <= decision.catalogue.version <= self._version

    def difference(self, decision: Decision, bandit: Bandit) -> str:
        """Say what is not as it was when a decision from a catalogue is made again; empty if all is."""
        assert decision.catalogue is not None
        served, version = self._served, decision.catalogue.version
        if served is None or not served.fits(bandit):
            self._served = served = ServedCatalogue(bandit)
        if served.version != version:
            served.apply(version, self._arms)
        choice = served.draw(bandit, decision.catalogue.question, decision.exploration, decision.seed)
        if (choice.actions, choice.chosen) != (decision.actions, decision.chosen):
            return f"the arms {list(choice.actions)} are drawn, and {list(decision.actions)} were"
        if not np.allclose(choice.probabilities, decision.probabilities, rtol=TOLERANCE, atol=0.0):
            return f"the probabilities are {list(choice.probabilities)}, and were {list(decision.probabilities)}"
        if choice.request != decision.request:
            return "the features of the arms are others than were logged"
        online = decision.mode is Mode.ONLINE
        shown = (decision.chosen, decision.probabilities[decision.chosen]) if online else (decision.baseline, 1.0)
        if shown != (decision.shown, decision.probability):
            return f"{shown[0]} is shown with probability {shown[1]}, and {decision.shown} was"
        return ""
