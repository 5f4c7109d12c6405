from typing import Any

import msgspec
import pytest

from glbandits.service.http.body_errors import body_error_text
from glbandits.service.http.v1.schemas import BatchRequest, EventRewardRequest


def text_of(body: bytes, schema: Any) -> str:
    with pytest.raises(msgspec.DecodeError) as refused:
        msgspec.json.decode(body, type=schema)
    return body_error_text(refused.value, schema)


@pytest.mark.parametrize(
    ("body", "schema", "text"),
    [
        (b'{"reward": 1}', EventRewardRequest, "unknown field `reward`. Known: cascade, eventId, flag, key"),
        (
            b'{"decide": [{}, {"arm": 1}]}',
            BatchRequest,
            "`$.decide[1]`; did you mean 'arms'? Known: arms, ",
        ),
    ],
)
def test_an_unknown_field_is_answered_with_the_known_ones(body: bytes, schema: Any, text: str) -> None:
    assert text in text_of(body, schema)


@pytest.mark.parametrize("body", [b'{"value": "yes"}', b'{"value": ', b"[]"])
def test_other_errors_have_the_text_of_msgspec(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError) as refused:
        msgspec.json.decode(body, type=EventRewardRequest)
    assert text_of(body, EventRewardRequest) == str(refused.value)


@pytest.mark.parametrize(
    "name", ["a - at `$.decide[0]", "` - at `$.x.y[0]", "` - at `$[", "` - at `$.decide[...].arms.z"]
)
def test_a_field_that_looks_like_a_path_is_an_error_too(name: str) -> None:
    assert name in text_of(msgspec.json.encode({name: 1}), BatchRequest)
