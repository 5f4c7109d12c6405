"""Damage the models in a store."""

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from glbandits.bandit import Bandit
from glbandits.service.domain.model_snapshots import decode_snapshot, encode_snapshot, load_snapshot
from glbandits.service.runtime.loops.loop_documents import BASE
from glbandits.service.storage.event_store import EventStore


def invalid(body: bytes) -> bytes:
    """A snapshot whose model has a state with a number that is not finite."""
    snapshot, bandit = load_snapshot(body)
    bandit._state[-1] = np.inf
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Bandit, "is_valid", lambda _: True)
        return encode_snapshot(replace(snapshot, bandit=bandit.to_bytes()))


def truncated(body: bytes) -> bytes:
    return body[: len(body) // 2]


def of_another_format(body: bytes) -> bytes:
    return encode_snapshot(replace(decode_snapshot(body), bandit=b"model of the next version"))


DAMAGES = [invalid, truncated, of_another_format, lambda _: b"garbage", lambda _: b""]


def damage_model(store: EventStore, damage: Callable[[bytes], bytes]) -> int:
    """Damage the newest saved model, and return its sequence number."""
    saved = store.latest_model("default")
    assert saved is not None
    with store._changing("models") as connection:
        query = "UPDATE models SET body = %s WHERE loop_name = 'default' AND sequence = %s"
        store._execute(connection, query, damage(saved.body), saved.sequence)
    return saved.sequence


def damage_base(store: EventStore, damage: Callable[[bytes], bytes]) -> None:
    """Damage the base of the present epoch."""
    base = store.latest_document("default", BASE)
    assert base is not None
    with store._changing("documents") as connection:
        query = "UPDATE documents SET body = %s WHERE loop_name = 'default' AND kind = %s AND version = %s"
        store._execute(connection, query, damage(base.body), BASE, base.version)


def damage_all_models(store: EventStore) -> None:
    with store._changing("models") as connection:
        store._execute(connection, "UPDATE models SET body = %s", b"garbage")
