"""The documents of a loop in the store: identity, configuration, and models of epochs."""

import secrets
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from glbandits.bandit import Bandit
from glbandits.common.errors import ModelFileError
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import (
    FirstModel,
    Identity,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
    fresh_model,
    load_snapshot,
)
from glbandits.service.storage.document_store import Document
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.loop_store import IDENTITY

CONFIGURATION, BASE, INVALIDATING = "configuration", "base", "invalidating"
RELEARNING = "relearning"
"""Kinds of documents. A base is the model that starts an epoch: version 1 starts epoch 0, version 2 epoch 1. The log is
complete since the oldest base: when a part of the log is deleted, a new epoch starts, the model that made the first
decision that is kept becomes the base of its epoch, and older bases are deleted. Decisions of older models cannot be
reproduced. A version of INVALIDATING has decisions that would
have made models of an epoch invalid, so that they were set aside. RELEARNING is the progress of `Loop.relearn`."""


class Invalidating(msgspec.Struct, frozen=True):
    """Decisions that were set aside in an epoch, because they would have made the model invalid."""

    epoch: int
    sequences: tuple[int, ...] = ()


def read_invalidating(store: EventStore, loop_name: str, epoch: int) -> frozenset[int]:
    """Return the sequence numbers of the decisions that would have made models of an epoch invalid."""
    found: set[int] = set()
    for document in store.documents(loop_name, INVALIDATING):
        with suppress(msgspec.MsgspecError):  # a damaged document must not stop a start
            decisions = msgspec.json.decode(document.body, type=Invalidating)
            found.update(decisions.sequences if decisions.epoch == epoch else ())
    return frozenset(found)


class RelearningProgress(msgspec.Struct, frozen=True):
    """How much of the log the model of a changed configuration has learned."""

    configuration: int
    """The version of the configuration."""
    learned_through: int


class Unreadable(NamedTuple):
    """The newest model in the store cannot be loaded."""

    what: str
    """Which model it is, and why it cannot be loaded."""
    learned_through: int
    """Sequence number of the last decision that it has learned; of the last decision of the log for a base."""


class SavedLoop(NamedTuple):
    """The newest configuration and the newest model in the store."""

    configuration: LoopConfig
    window_since: int
    """Timestamp since which the reward window has its present length."""
    assigned_since: int
    """The version of the configuration since which units are assigned to groups by the present rule; 0 without."""
    model: tuple[Snapshot, Bandit] | None
    """The newest model that can be loaded; None if the caller has it."""
    unreadable: Unreadable | None
    """None if `model` is the newest one."""


def first_documents(configuration: LoopConfig) -> dict[str, bytes]:
    """Return the documents with which a loop is created."""
    identity = Identity(secrets.token_hex(16))
    return {IDENTITY: msgspec.json.encode(identity), CONFIGURATION: msgspec.json.encode(configuration)}


def latest_base(store: EventStore, loop_name: str) -> Bandit | None:
    """Return the newest model that started an epoch of a loop and can be loaded; None if there is none."""
    for document in reversed(store.documents(loop_name, BASE)):
        with suppress(ModelFileError):
            return load_snapshot(document.body)[1]
    return None


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
        self.created = 0
        """The version of the identity, which differs if the loop is deleted and created again."""
        self._window_since = self._assigned_since = 0

    def salt(self) -> str:
        """Return the salt of the loop's seeds. Creates the loop in the store, unless another process does so first."""
        while (identity := self._store.latest_document(self._name, IDENTITY)) is None:
            self._store.delete_remains(self._name)
            self._store.create_loop(self._name, self._clock(), first_documents(self._first_configuration))
        self.created = identity.version
        return msgspec.json.decode(identity.body, type=Identity).salt

    def _document(self, kind: str, first: Callable[[], bytes]) -> Document:
        """Return the newest version.

        If there is none, create it, unless another process does so first.
        """
        while (document := self._store.latest_document(self._name, kind)) is None:
            self._store.save_documents(self._name, self._clock(), {kind: first()}, expected_versions={kind: 0})
        return document

    @property
    def next_epoch(self) -> int:
        """The epoch that starts with the next base."""
        return self._versions[BASE]

    @property
    def next_configuration(self) -> int:
        """The version of the next configuration."""
        return self._versions[CONFIGURATION] + 1

    def save_progress(self, learned_through: int) -> None:
        """Save how far the model of the present configuration has learned the log, for the status in all processes."""
        body = msgspec.json.encode(RelearningProgress(self._versions[CONFIGURATION], learned_through))
        self.save({RELEARNING: body}, latest_only=[RELEARNING])

    def progress(self) -> int:
        """Return how far the model of the present configuration has learned the log; 0 if that is not known."""
        document = self._store.latest_document(self._name, RELEARNING)
        if document is None:
            return 0
        progress = msgspec.json.decode(document.body, type=RelearningProgress)
        return progress.learned_through if progress.configuration == self._versions[CONFIGURATION] else 0

    def read(self, present: tuple[int, int] | None = None) -> SavedLoop:
        """Read the configuration and the newest model that can be loaded; remember their versions for `save`.

        Args:
            present: epoch and last learned decision of the caller's model, to load newer ones only. If it is None and
                no model of the present epoch can be loaded, a new epoch starts with a model that has learned nothing.
        """
        document = self._document(CONFIGURATION, lambda: msgspec.json.encode(self._first_configuration))
        configuration = msgspec.json.decode(document.body, type=LoopConfig)
        if document.version != self._versions.get(CONFIGURATION):
            self._window_since, self._assigned_since = self._unchanged_since(configuration)
        if present is not None and self._store.newest_version(self._name, BASE) == present[0] + 1:
            base = Document(present[0] + 1, 0, b"")  # the caller has it, so it need not be read
        else:
            base = self._document(BASE, lambda: encode_snapshot(self._first_snapshot(configuration)))
        self._versions = {CONFIGURATION: document.version, BASE: base.version, IDENTITY: self.created}
        unreadable: list[Unreadable] = []
        model = self._newest_model(base, present, unreadable)
        if model is None and present is None:
            first = msgspec.structs.replace(self._first_snapshot(configuration), epoch=self.next_epoch)
            self.save({BASE: encode_snapshot(first)})  # unless another process does so
            return self.read()._replace(unreadable=unreadable[0])
        since = self._window_since, self._assigned_since
        return SavedLoop(configuration, *since, model, unreadable[0] if unreadable else None)

    def _newest_model(
        self, base: Document, present: tuple[int, int] | None, unreadable: list[Unreadable]
    ) -> tuple[Snapshot, Bandit] | None:
        """Return the newest model of the epoch that can be loaded; None if there is none after `present`.

        Appends newer ones that cannot be loaded to `unreadable`.
        """
        epoch = base.version - 1
        is_known = present is not None and (epoch, self._store.latest_model_sequence(self._name)) <= present
        saved = None if is_known else self._store.latest_model(self._name)
        while saved is not None and (present is None or (epoch, saved.sequence) > present):
            try:
                if decode_snapshot(saved.body).epoch != epoch:
                    break
                return load_snapshot(saved.body)
            except ModelFileError as error:
                unreadable.append(_unreadable(f"saved model {saved.sequence}", error, saved.sequence))
            saved = self._store.model_at_most(self._name, saved.sequence - 1)
        if present is not None and epoch <= present[0]:
            return None
        try:
            return load_snapshot(base.body)
        except ModelFileError as error:
            last = self._store.last_sequence(self._name)
            unreadable.append(_unreadable(f"the model that started epoch {epoch}", error, last))
            return None

    def has_newer_configuration(self) -> bool:
        """Whether the store has another configuration than the one that was read last."""
        document = self._store.latest_document(self._name, CONFIGURATION)
        return document is not None and document.version != self._versions.get(CONFIGURATION)

    def _first_snapshot(self, configuration: LoopConfig) -> Snapshot:
        """Return the model of a loop that is new in the store."""
        first, after = self._first_model, self.created if self.created > 1 else 0
        if first is not None and first.configure(configuration) == configuration:
            return Snapshot(0, after, first.content, relearn_after=None if first.trained else after)
        base = latest_base(self._store, self._name)
        content = fresh_model(configuration, None if base is None else base.features).to_bytes()
        return Snapshot(0, after, content, relearn_after=after)

    def _unchanged_since(self, configuration: LoopConfig) -> tuple[int, int]:
        """Return `SavedLoop.window_since` and `SavedLoop.assigned_since`."""
        window_since, assigned_since, rule = 0, 0, configuration.assignment
        same_window = same_rule = True
        for document in reversed(self._store.documents(self._name, CONFIGURATION)):
            earlier = msgspec.json.decode(document.body, type=LoopConfig)
            same_window = same_window and earlier.reward_window == configuration.reward_window
            same_rule = same_rule and earlier.assignment == rule
            window_since = document.timestamp if same_window else window_since
            assigned_since = document.version if same_rule else assigned_since
            if not same_window and not same_rule:
                break
        return window_since, assigned_since if rule else 0

    def save(
        self, bodies: Mapping[str, bytes], *, latest_only: Collection[str] = (), oldest: Snapshot | None = None
    ) -> bool:
        """Save documents by kind, in one transaction.

        Older versions of the kinds in `latest_only` are deleted. `oldest` replaces the base of its epoch, and older
        bases are deleted. Returns False and saves nothing if another process has
        changed the configuration or the base since `read`.
        """
        return self._store.save_documents(
            self._name,
            self._clock(),
            bodies,
            expected_versions=self._versions,
            latest_only=latest_only,
            oldest={} if oldest is None else {BASE: (oldest.epoch + 1, encode_snapshot(oldest))},
        )


def _unreadable(name: str, error: ModelFileError, learned_through: int) -> Unreadable:
    why = str(error).partition(". ")[0]  # without its advice, which is for files
    return Unreadable(f"{name} cannot be loaded ({why})", learned_through)
