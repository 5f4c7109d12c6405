"""The documents of a loop in the store: identity, configuration, and models of epochs."""

import secrets
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import msgspec

from glbandits.bandit import Bandit
from glbandits.serving.domain.loop_config import LoopConfig
from glbandits.serving.domain.model_snapshots import (
    FirstModel,
    Identity,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
    fresh_model,
)
from glbandits.serving.storage.event_store import Document, EventStore

IDENTITY, CONFIGURATION, BASE = "loop", "configuration", "base"
"""Kinds of documents. A base is the model that starts an epoch. The log is complete since the oldest base: when a part
of the log is deleted, a new epoch starts, and older bases are deleted. Decisions of deleted epochs cannot be
reproduced."""


class SavedLoop(NamedTuple):
    """The newest configuration and the newest model in the store."""

    configuration: LoopConfig
    window_since: int
    """Timestamp since which the reward window has its present length."""
    snapshot: Snapshot


def stored_model(store: EventStore, loop_name: str) -> Bandit | None:
    """Return the model with which the present epoch of a loop started; None if the loop is not in the store."""
    base = store.latest_document(loop_name, BASE)
    return None if base is None else Bandit.from_bytes(decode_snapshot(base.body).bandit)


class LoopDocuments:
    """Reads and saves the documents of a loop, without overwriting changes of other processes.

    Args:
        loop_name: the name of the loop.
        store: has the documents.
        clock: microseconds since 1970.
        first_configuration: the configuration of a loop that is new in the store; None for the defaults.
        first_model: the model of a loop that is new in the store; None for one that has learned nothing.
    """

    def __init__(
        self,
        loop_name: str,
        store: EventStore,
        clock: Callable[[], int],
        first_configuration: LoopConfig | None,
        first_model: FirstModel | None,
    ) -> None:
        self._name, self._store, self._clock = loop_name, store, clock
        self._first_configuration, self._first_model = first_configuration or LoopConfig(), first_model
        if first_model is not None:
            self._first_configuration = first_model.configure(self._first_configuration)
        self._versions: dict[str, int] = {}
        self._window_since = 0

    def salt(self) -> str:
        """Return the salt of the loop's seeds."""
        identity = self._document(IDENTITY, lambda: msgspec.json.encode(Identity(secrets.token_hex(16))))
        return msgspec.json.decode(identity.body, type=Identity).salt

    def _document(self, kind: str, first: Callable[[], bytes]) -> Document:
        """Return the newest version.

        If there is none, create it, unless another process does so first.
        """
        while (document := self._store.latest_document(self._name, kind)) is None:
            self._store.save_documents(self._name, self._clock(), {kind: first()}, expected_versions={kind: 0})
        return document

    def read(self) -> SavedLoop:
        """Read the configuration and the newest model; remember their versions for `save`."""
        document = self._document(CONFIGURATION, lambda: msgspec.json.encode(self._first_configuration))
        configuration = msgspec.json.decode(document.body, type=LoopConfig)
        if document.version != self._versions.get(CONFIGURATION):
            self._window_since = self._window_changed_at(configuration)
        base = self._document(BASE, lambda: encode_snapshot(Snapshot(0, 0, self._first_model_of(configuration))))
        self._versions = {CONFIGURATION: document.version, BASE: base.version}
        snapshot, saved = decode_snapshot(base.body), self._store.latest_model(self._name)
        latest = snapshot if saved is None else decode_snapshot(saved.body)
        newest = latest if latest.epoch == snapshot.epoch else snapshot
        return SavedLoop(configuration, self._window_since, newest)

    def has_newer_configuration(self) -> bool:
        """Whether the store has another configuration than the one that was read last."""
        document = self._store.latest_document(self._name, CONFIGURATION)
        return document is not None and document.version != self._versions.get(CONFIGURATION)

    def _first_model_of(self, configuration: LoopConfig) -> bytes:
        """Return the model of a loop that is new in the store."""
        first = self._first_model
        if first is not None and first.configure(configuration) == configuration:
            return first.content
        return fresh_model(configuration).to_bytes()

    def _window_changed_at(self, configuration: LoopConfig) -> int:
        """Return the timestamp since which the reward window has its present length."""
        since = 0
        for document in reversed(self._store.documents(self._name, CONFIGURATION)):
            if msgspec.json.decode(document.body, type=LoopConfig).reward_window != configuration.reward_window:
                break
            since = document.timestamp
        return since

    def save(self, bodies: Mapping[str, bytes], *, latest_only: Collection[str] = ()) -> bool:
        """Save documents by kind, in one transaction.

        Older versions of the kinds in `latest_only` are deleted. Returns False and saves nothing if another process has
        changed the configuration or the base since `read`.
        """
        return self._store.save_documents(
            self._name, self._clock(), bodies, expected_versions=self._versions, latest_only=latest_only
        )
