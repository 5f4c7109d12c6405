"""The contract of `EventStore`: documents and models."""

from collections.abc import Callable
from contextlib import closing

import pytest

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.events import EventStatus
from glbandits.service.storage import document_store
from glbandits.service.storage.document_store import Document, SavedModel
from glbandits.service.storage.event_store import EventStore
from tests.service.helpers import decision, reward


def test_documents_keep_their_history(store: EventStore) -> None:
    assert store.latest_document("shop", "policy") is None
    for at in (5, 4):
        store.save_document("shop", "policy", at, b"%d" % at)
    store.save_document("shop", "keys", 6, b"")
    assert store.documents("shop", "keys") == [Document(1, 6, b"")]
    assert store.documents("shop", "policy") == [Document(1, 5, b"5"), Document(2, 4, b"4")]
    assert store.latest_document("shop", "policy") == Document(2, 4, b"4")
    assert store.documents("other", "policy") == []


def test_documents_are_saved_together_or_not_at_all(store: EventStore) -> None:
    store.save_document("shop", "policy", 1, b"a")
    assert store.save_documents("shop", 2, {"policy": b"b", "base": b"c"}, expected_versions={"policy": 1, "base": 0})
    assert not store.save_documents(
        "shop", 3, {"policy": b"d", "base": b"e"}, expected_versions={"policy": 2, "base": 0}
    )
    assert store.latest_document("shop", "policy") == Document(2, 2, b"b")
    assert store.save_documents("shop", 4, {"base": b"f"}, expected_versions={"policy": 2}, latest_only=["base"])
    assert store.documents("shop", "base") == [Document(2, 4, b"f")]
    assert len(store.documents("shop", "policy")) == 2


def test_names_are_found_by_the_kind_of_their_documents(store: EventStore) -> None:
    for name, kind in (("shop", "base"), ("shop", "base"), ("garden", "base"), ("keys", "key")):
        store.save_document(name, kind, 1, b"a")
    assert store.names_with("base") == ["garden", "shop"]
    assert store.names_with("policy") == []
    assert (store.newest_version("shop", "base"), store.newest_version("shop", "policy")) == (2, 0)


def test_changes_of_other_processes_are_noticed(store: EventStore, opened: Callable[[], EventStore]) -> None:
    with closing(opened()) as other:
        assert [store.wait_for_change(0), store.wait_for_change(0)] == [True, False]
        for own, noticed in ((store, False), (other, True)):
            own.save_document("shop", "policy", 1, b"")
            assert [store.wait_for_change(0), store.wait_for_change(0)] == [noticed, False]
            own.save_model("shop", 1, 1, b"")
            assert [store.wait_for_change(0), store.wait_for_change(0)] == [noticed, False]
        other.append_blocking([decision("a")])
        assert not store.wait_for_change(0)


def test_models_are_found_by_sequence_number(store: EventStore) -> None:
    assert store.latest_model("shop") is None
    for number in (10, 20, 30, 40):
        store.save_model("shop", number, timestamp=number, body=b"x" * number)
    store.save_model("other", 99, timestamp=0, body=b"")
    assert store.model_at_most("shop", 29) == SavedModel(20, 20, b"x" * 20)
    assert store.model_at_most("shop", 9) is None
    store.save_model("shop", 50, timestamp=50, body=b"new", keep=2)
    models = (store.model_at_most("shop", number) for number in (10, 39, 40, 50))
    assert [model and model.sequence for model in models] == [10, 10, 40, 50]
    store.save_model("shop", 50, timestamp=51, body=b"newer")
    assert store.latest_model("shop") == SavedModel(50, 51, b"newer")
    store.save_model("shop", 30, timestamp=52, body=b"relearned", keep=2)
    assert store.latest_model("shop") == SavedModel(30, 52, b"relearned")
    assert store.latest_model("other") is not None
    with pytest.raises(InvalidInput, match="keep must be a whole number of at least 1"):
        store.save_model("shop", 60, timestamp=0, body=b"", keep=0)


def test_older_models_are_kept_at_intervals(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_store, "SNAPSHOT_SPACING", 10)
    monkeypatch.setattr(document_store, "MAX_SNAPSHOTS", 3)
    for number in range(1, 100, 3):
        store.save_model("shop", number, timestamp=0, body=b"m", keep=2)
    models = {model.sequence for n in range(1, 100) if (model := store.model_at_most("shop", n))}
    assert sorted(models) == [1, 70, 82, 91, 94, 97]


def test_a_deleted_loop_leaves_nothing_and_others_stay(store: EventStore) -> None:
    for name in ("shop", "garden"):
        store.append_blocking([decision("a", loop=name), reward("a", loop=name)])
        store.save_document(name, "base", 1, b"a")
        store.save_model(name, 1, 1, b"model")
    store.delete_loop("shop")
    assert (store.names_with("base"), store.latest_model("shop"), store.decision("shop", "a")) == (
        ["garden"],
        None,
        None,
    )
    assert store.summary("shop").decisions[EventStatus.ACCEPTED] == 0
    assert store.latest_model("garden") is not None
    assert store.decision("garden", "a") is not None
