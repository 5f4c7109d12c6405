"""Encoded names of fields in stores: they stay as they were in older versions."""

import msgspec

from glbandits.service.domain.events import Decision
from glbandits.service.storage.api_keys import Key
from glbandits.service.storage.event_store import decode_body, encode_body
from tests.service.helpers import WAIT, decision

OLD_DECISION = {
    "loop": "shop",
    "event_id": "e",
    "slot": "",
    "at": 5,
    "request": b'{"context": [], "actions": []}',
    "encoding": "json",
    "actions": ["a", "b", "c"],
    "excluded": [],
    "chosen": 1,
    "shown": 1,
    "baseline": None,
    "probability": 0.25,
    "probabilities": [0.5, 0.25, 0.25],
    "epoch": 0,
    "model": 0,
    "mode": "Online",
    "deferred": False,
    "wait": WAIT,
    "default_reward": 0.0,
    "aggregation": "earliest",
    "exploration": 0.2,
    "seed": 7,
}


def test_decisions_of_older_stores_are_read() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(OLD_DECISION), type=Decision) == decision("e", timestamp=5)


def test_older_versions_find_the_fields_they_need() -> None:
    encoded = msgspec.msgpack.decode(msgspec.msgpack.encode(decision("e", timestamp=5)))
    assert {name: encoded[name] for name in OLD_DECISION} == OLD_DECISION


def test_api_keys_of_older_stores_are_read() -> None:
    old = b'{"id":"1","name":"shop","digest":"AAAA","scopes":["rank"],"at":5}'
    assert msgspec.json.decode(old, type=Key).timestamp == 5


def test_decisions_without_a_baseline_are_read() -> None:
    fields = msgspec.msgpack.decode(encode_body(decision("e", baseline=2)))
    assert fields.pop("baseline") == 2
    assert decode_body(msgspec.msgpack.encode(fields)) == decision("e")
