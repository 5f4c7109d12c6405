"""Whatever comes, the answer is a decision that the log has, or a refusal: never a 500."""

import json
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.service.http.v1.v1_site import ARMS, WIDTH, Site

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
NUMBERS = st.floats(-1e3, 1e3) | st.integers(-9, 9)
ROWS = st.lists(st.lists(NUMBERS, min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=4)
NAMES = st.sampled_from(
    "arms eventId ids values costs excluded deferred k value position cascade key decide reward".split()  # noqa: SIM905
)
PATHS = st.sampled_from(["/v1/decide", "/v1/rank", "/v1/reward", "/v1/activate", "/v1/batch", "/loops/shop/v1/decide"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("fuzz")
    with Site(folder) as site:
        yield site


def check(site: Site, path: str, body: bytes, **more: Any) -> None:
    """No failure of the server; what is accepted is in the log."""
    reply = site.ask("POST", path, body, **more)
    assert reply.status_code in {200, 400, 404, 413}, (path, body, reply.text)
    if reply.status_code == 200 and path.startswith("/v1/decide"):
        event = site.service.store.decision("default", reply.json()["eventId"])
        assert event is not None
        assert event.decision.shown == reply.json()["arm"]


@given(PATHS, st.dictionaries(NAMES, ANYTHING, max_size=4), st.booleans())
@example("/v1/decide", {"arms": ARMS, "eventId": "\ud800"}, False)
@example("/v1/decide", {"arms": ARMS, "eventId": "\0"}, False)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_json_gets_a_valid_response(site: Site, path: str, content: dict[str, Any], whole: bool) -> None:
    body = json.dumps(content).encode()  # NaN and half characters included
    check(site, path, body if whole else body[:-1])


@given(PATHS, st.binary(max_size=80))
@settings(max_examples=40, deadline=None)
def test_any_bytes_get_a_valid_response(site: Site, path: str, body: bytes) -> None:
    check(site, path, body)


@given(ROWS, st.text(string.printable, min_size=1, max_size=9), st.lists(st.integers(-1, 4), max_size=3))
@settings(max_examples=40, deadline=None)
def test_nearly_valid_requests_get_a_valid_response(site: Site, rows: Any, event_id: str, excluded: list[int]) -> None:
    content = {"arms": rows, "eventId": event_id, "excluded": excluded}
    reply = site.ask("POST", "/v1/decide", content)
    wrong = any(index < 0 or index >= len(rows) for index in excluded) or set(excluded) >= set(range(len(rows)))
    if wrong:
        assert reply.status_code == 400
    elif reply.status_code == 400:
        assert "was decided before" in reply.json()["detail"]
    else:
        assert reply.json()["arm"] not in excluded
        assert sum(reply.json()["probabilities"]) == pytest.approx(1)
