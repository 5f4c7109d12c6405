"""What the store has of a loop: its identity, its configuration, and the models with which epochs begin."""

import secrets
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import msgspec

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
"""Kinds of documents. A base is the model with which an epoch begins. The log is whole since the oldest base: when a
part of it is deleted, a new epoch begins, and older bases go. What was decided before cannot be made again."""


class SavedLoop(NamedTuple):
    """A configuration and the newest model, as the store has them."""

    configuration: LoopConfig
    window_since: int
    """Timestamp since which the reward window is what it is now."""
    snapshot: Snapshot


class LoopDocuments:
    """Reads and saves the documents of a loop. Remembers their versions, so that no change of others is overwritten.

    Args:
        loop_name: whose documents.
        store: where they are kept.
        clock: microseconds since 1970.
        first_configuration: if the loop is new in the store; None for the defaults.
        first_model: with which the loop begins, if it is new in the store; None for one that knows nothing.
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
        """What makes the draws of the loop its own."""
        identity = self._document(IDENTITY, lambda: msgspec.json.encode(Identity(secrets.token_hex(16))))
        return msgspec.json.decode(identity.body, type=Identity).salt

    def _document(self, kind: str, first: Callable[[], bytes]) -> Document:
        """The newest version. If there is none, it is created; of several processes that try, one does."""
        while (document := self._store.latest_document(self._name, kind)) is None:
            self._store.save_documents(self._name, self._clock(), {kind: first()}, after={kind: 0})
        return document

    def read(self) -> SavedLoop:
        """Read the configuration and the newest model; remember their versions for `save`."""
        document = self._document(CONFIGURATION, lambda: msgspec.json.encode(self._first_configuration))
        configuration = msgspec.json.decode(document.body, type=LoopConfig)
        if document.version != self._versions.get(CONFIGURATION):
            self._window_since = self._when_the_window_changed(configuration)
        base = self._document(BASE, lambda: encode_snapshot(Snapshot(0, 0, self._begin(configuration))))
        self._versions = {CONFIGURATION: document.version, BASE: base.version}
        snapshot, saved = decode_snapshot(base.body), self._store.latest_model(self._name)
        latest = snapshot if saved is None else decode_snapshot(saved.body)
        newest = latest if latest.epoch == snapshot.epoch else snapshot
        return SavedLoop(configuration, self._window_since, newest)

    def _begin(self, configuration: LoopConfig) -> bytes:
        """The model of a loop that is new in the store."""
        first = self._first_model
        if first is not None and first.configure(configuration) == configuration:
            return first.content
        return fresh_model(configuration).to_bytes()

    def _when_the_window_changed(self, configuration: LoopConfig) -> int:
        """The timestamp since which the reward window is what it is now."""
        since = 0
        for document in reversed(self._store.documents(self._name, CONFIGURATION)):
            if msgspec.json.decode(document.body, type=LoopConfig).reward_window != configuration.reward_window:
                break
            since = document.timestamp
        return since

    def save(self, bodies: Mapping[str, bytes], *, alone: Collection[str] = ()) -> bool:
        """Save documents by kind, in one transaction. Of the kinds in `alone`, older versions are deleted.

        If another process has changed the configuration or the base since they were read, nothing is saved, and the
        answer is False.
        """
        return self._store.save_documents(self._name, self._clock(), bodies, after=self._versions, alone=alone)
