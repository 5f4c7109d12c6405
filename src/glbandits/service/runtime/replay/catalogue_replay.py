"""Repeat decisions from a catalogue, each with the version of the catalogue that it used."""

from collections.abc import Sequence

import numpy as np

from glbandits.bandit import Bandit
from glbandits.service.domain.catalogues.catalogue_records import CatalogueArm
from glbandits.service.domain.catalogues.served_catalogue import ServedCatalogue
from glbandits.service.domain.events import Decision, Mode
from glbandits.service.storage.event_store import EventStore

TOLERANCE = 1e-9
"""Largest relative difference of probabilities that count as equal. Rounding depends on the bounds that are left from
earlier draws, and a replay makes other draws than the server did."""


class CatalogueReplay:
    """All complete versions of the catalogue of a loop.

    Reads the store when it needs a newer version.
    """

    def __init__(self, store: EventStore, loop_name: str) -> None:
        self._store, self._loop_name = store, loop_name
        self._version, self._complete_since = 0, 0
        self._arms: Sequence[CatalogueArm] = ()
        self._served: ServedCatalogue | None = None

    def has(self, decision: Decision) -> bool:
        """Return whether a decision can be repeated: it used no catalogue, or a complete version."""
        if decision.catalogue is None:
            return True
        if decision.catalogue.version > self._version:
            self._version, head, self._arms = self._store.catalogue_changes(self._loop_name, 0)
            self._complete_since = head.complete_since
        return self._complete_since <= decision.catalogue.version <= self._version

    def difference(self, decision: Decision, bandit: Bandit) -> str:
        """Repeat a decision from a catalogue.

        Returns how the result differs from the log; empty if it does not.
        """
        assert decision.catalogue is not None
        served, version = self._served, decision.catalogue.version
        if served is None or not served.is_built_for(bandit):
            self._served = served = ServedCatalogue(bandit)
        if served.version != version:
            served.apply(version, self._arms)
        choice = served.draw(bandit, decision.catalogue.query, decision.exploration, decision.seed)
        if (choice.actions, choice.chosen) != (decision.actions, decision.chosen):
            return f"replay drew the arms {list(choice.actions)}, the log has {list(decision.actions)}"
        if not np.allclose(choice.probabilities, decision.probabilities, rtol=TOLERANCE, atol=0.0):
            return f"replay has probabilities {list(choice.probabilities)}, the log has {list(decision.probabilities)}"
        if choice.request != decision.request:
            return "the features of the arms differ from the logged ones"
        online = decision.mode is Mode.ONLINE
        shown = (decision.chosen, decision.probabilities[decision.chosen]) if online else (decision.baseline, 1.0)
        if shown != (decision.shown, decision.probability):
            return (
                f"replay shows arm {shown[0]} with probability {shown[1]}, the log has arm {decision.shown} with "
                f"{decision.probability}"
            )
        return ""
