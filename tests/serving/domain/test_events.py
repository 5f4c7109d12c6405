import msgspec

from glbandits.serving.storage.event_store import decode_body, encode_body
from tests.serving.makers import decision


def test_a_log_that_does_not_know_of_baselines_can_be_read() -> None:
    kept = msgspec.msgpack.decode(encode_body(decision("e", baseline=2)))
    assert kept.pop("baseline") == 2
    assert decode_body(msgspec.msgpack.encode(kept)) == decision("e")
