import asyncio
import inspect
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx2
import numpy as np
import pandas as pd
import pytest

from glbandits.common.errors import InvalidInput
from glbandits.service import Settings, create_app
from glbandits.service.client import (
    AsyncClient,
    Client,
    ServiceError,
    calls,
    decide_request,
    metrics_request,
    reward_request,
)
from glbandits.service.client.calls import Destination, Pause
from glbandits.service.domain.events import EventStatus
from glbandits.service.runtime.service import microseconds
from glbandits.service.storage.api_keys import Keys
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.http.servers.live_server import live_server
from tests.service.http.v1.v1_site import ARMS, WIDTH


class Awaited:
    """An `AsyncClient` whose coroutines run at once, so that both kinds of client have the same tests."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self._runner, self._client = asyncio.Runner(), AsyncClient(*arguments, **more)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return lambda *arguments, **more: self._runner.run(method(*arguments, **more))

    def __enter__(self) -> Self:
        self._runner.run(self._client.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.run(self._client.__aexit__(*error))
        self._runner.close()


@pytest.fixture(params=[Client, Awaited], name="client_of")
def client_of_fixture(request: pytest.FixtureRequest) -> Any:
    """The class of the client."""
    return request.param


class Live(NamedTuple):
    address: str
    key: str
    client_of: Any = Client

    def client(self, loop: str = "default", **more: Any) -> Any:
        return self.client_of(self.address, self.key, loop, **more)


@pytest.fixture(name="live")
def live_fixture(server: Live, client_of: Any) -> Live:
    return server._replace(client_of=client_of)


@pytest.fixture(scope="module", name="server")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server in a thread."""
    folder: Path = tmp_path_factory.mktemp("client")
    with closing(SqliteStore(folder / "store.db")) as store:
        key = Keys(store, microseconds).create("all").text
    app = create_app(Settings(store=str(folder / "store.db"), loops=("default", "other")))
    with live_server(app) as address:
        for loop in ("default", "other"):
            metrics = {"ms": {"range": [0, 1000]}, "returned": {"range": [0, 1]}}
            changed = {"width": WIDTH, "exploration": 0.3, "metrics": metrics}
            reply = httpx2.patch(
                f"{address}/loops/{loop}/v1/configuration", json=changed, headers={"authorization": f"Bearer {key}"}
            )
            assert reply.status_code == 200
        yield Live(address, key)


def test_client_decides_rewards_and_reads_the_status(live: Live) -> None:
    with live.client() as client:
        decided = client.decide(ARMS, ids=["x", "y", "z"], excluded=[0])
        assert decided.arm in (1, 2)
        assert decided.id == "xyz"[decided.arm]
        assert decided.probability == decided.probabilities[decided.arm]
        rewarded = client.reward(decided.event_id, 1.0)
        assert (rewarded.event_id, rewarded.status) == (decided.event_id, EventStatus.ACCEPTED)
        assert client.status().counts.rewards[EventStatus.ACCEPTED] >= 1


def test_client_ranks_and_sends_rewards_of_positions(live: Live) -> None:
    event_id = f"ranking {live.client_of.__name__}"
    with live.client() as client:
        ranked = client.rank(np.array(ARMS, dtype=np.float32), 2, event_id=event_id, ids=["x", "y", "z"], excluded=[0])
        assert sorted(ranked.ids) == ["y", "z"]
        assert ranked.probability == ranked.probabilities[0] * ranked.probabilities[1]
        assert client.rank(ARMS, 2, event_id=event_id, ids=["x", "y", "z"], excluded=[0]) == ranked
        assert client.reward(event_id, 1.0, position=0, cascade=True).status is EventStatus.ACCEPTED
        with pytest.raises(ServiceError, match="at position 2"):
            client.reward(event_id, 1.0, position=2)
        with pytest.raises(InvalidInput, match="k must be"):
            client.rank(ARMS, 0)
        with pytest.raises(TypeError, match="oops"):
            client.rank(ARMS, 1, oops=1)


def test_client_sends_payoffs(live: Live) -> None:
    event_id, arms = f"payoffs {live.client_of.__name__}", np.array(ARMS, dtype=np.float32)
    with live.client() as client:
        decided = client.decide(arms, event_id=event_id, values=np.array([1, 2, 50]), costs=(0, 0.5, 0))
        request = decide_request(ARMS, event_id=event_id, values=[1, 2, 50], costs=[0, 0.5, 0])
        assert client.batch([request]).decide[0].decided == decided
        with pytest.raises(ServiceError, match="payoffs"):
            client.decide(arms, event_id=event_id)
        for wrong in ([1, 2, np.nan], [[1, 2, 3]], 5):
            with pytest.raises(InvalidInput, match=re.escape(f"one for each arm; got {wrong}")):
                client.decide(arms, values=wrong)
        with pytest.raises(TypeError, match="oops"):
            client.decide(arms, oops=1)


def test_context_is_shared_by_all_rows(live: Live) -> None:
    rows, context = [{"drink": "tea"}, {"drink": "cola"}], {"hour": 8}
    with live.client("other") as client:
        decided = client.decide(rows, context=context, event_id="shared context")
        assert decided.arm in (0, 1)
        reply = client.batch([decide_request(rows, context=context, event_id="shared context")])
        assert reply.decide[0].decided == decided
        with pytest.raises(ServiceError, match="decided before"):  # the server received the context
            client.decide(rows, event_id="shared context")
        for arms in (ARMS, np.array(ARMS, dtype=np.float32)):
            with pytest.raises(InvalidInput, match="context needs arms with named fields"):
                client.decide(arms, context=context)


def test_scalars_of_numpy_and_pandas_are_sent_as_plain_values(live: Live) -> None:
    day = pd.Timestamp("2026-11-19 08:30")
    rows = [{"drink": np.str_("tea"), "size": np.int64(3), "hot": np.bool_(True), "day": day, "cup": pd.NA}]
    plain = [{"drink": "tea", "size": 3, "hot": True, "day": "2026-11-19T08:30:00", "cup": None}]
    context = pd.DataFrame({"hour": [8], "price": [np.float32(0.5)], "left": [pd.NaT]}).iloc[0].to_dict()
    with live.client("other") as client:
        sent = client.decide(rows, context=context, event_id=np.str_("scalars"), deferred=np.bool_(False))
        # The server refuses the same event id with another content.
        again = client.decide(plain, context={"hour": 8, "price": 0.5, "left": None}, event_id="scalars")
        assert again == sent
        dates = [{"day": np.datetime64("2026-11-19T08:30:00")}, {"day": np.datetime64("NaT")}]
        client.decide(dates, event_id="dates")
        client.decide([{"day": "2026-11-19T08:30:00"}, {"day": None}], event_id="dates")
        assert client.reward(np.str_("scalars"), np.float32(1.0)).status == EventStatus.ACCEPTED
        for value in (object(), 1j, np.timedelta64(3, "s"), {(1, 2): 3}):
            with pytest.raises(InvalidInput, match="rows and context must hold|no form in JSON"):
                client.decide([{"drink": value}])


def test_explanation_adds_up_to_the_scores(live: Live) -> None:
    with live.client("other") as client:
        decided = client.decide(ARMS, event_id="why/ü?")
        explained = client.explanation("why/ü?", limit=1)
        assert (explained.event_id, explained.exact) == ("why/ü?", True)
        for action in explained.slots[0].actions:
            assert sum(term.contribution for term in action.contributions) == pytest.approx(action.score)
        assert explained.slots[0].actions[decided.arm].shown
        with pytest.raises(ServiceError, match="the loop has no decision of the event"):
            client.explanation("unknown")


def test_a_batch_has_an_outcome_for_each(live: Live) -> None:
    with live.client("other") as client:
        questions = [decide_request(ARMS, event_id="b1"), decide_request(ARMS, event_id="b2"), decide_request([[1.0]])]
        ranked = client.rank(ARMS, 2).event_id
        click = reward_request(ranked, 1.0, position=0, cascade=True)
        reply = client.batch(questions, [("b1", 1.0), ("nobody", 1.0), click])
    first, second, third = reply.decide
    assert first.decided is not None
    assert second.decided is not None
    assert third.problem is not None
    assert third.problem.status == 400
    assert reply.reward[0].rewarded is not None
    assert reply.reward[1].problem is not None
    assert reply.reward[2].rewarded is not None


def test_client_sends_units_and_metrics(live: Live) -> None:
    with live.client() as client:
        unit = f"user {live.client_of.__name__}"
        events = [client.decide(arms, unit=unit).event_id for arms in (ARMS, np.array(ARMS, dtype=np.float32))]
        events.append(client.decide(ARMS, unit=unit, sticky=True).event_id)
        ranked = client.rank(ARMS, 2, unit=unit).event_id
        for _ in range(2):
            statuses = client.metrics(events[0], {"ms": np.float64(120), "returned": 0}).statuses
        assert statuses == {"ms": EventStatus.DUPLICATE, "returned": EventStatus.DUPLICATE}
        assert client.metrics(events[0], {"ms": 7}, key="k").statuses == {"ms": EventStatus.ACCEPTED}
        assert client.metrics(ranked, {"ms": 7}, position=1).statuses == {"ms": EventStatus.ACCEPTED}
        reply = client.batch(
            [decide_request(ARMS, event_id=f"b {unit}", unit=unit)],
            metrics=[metrics_request(f"b {unit}", {"ms": 1}), metrics_request("?", {"ms": 1})],
        )
        assert reply.metrics[0].measured is not None
        assert reply.metrics[1].problem is not None
        with pytest.raises(ServiceError, match="no metric 'latency'"):
            client.metrics(events[0], {"latency": 1})
        for number in (float("nan"), "much", 10**400, [1, 2], True, np.True_, None):
            with pytest.raises(InvalidInput, match="'ms' must be a finite number"):
                client.metrics(events[0], {"ms": number})
        with pytest.raises(InvalidInput, match="position must be"):
            client.metrics(events[0], {"ms": 1}, position=-1)
        wrong: Any
        for wrong in (5, b"me", "\ud800"):
            with pytest.raises(InvalidInput, match="name of a metric must be Unicode text"):
                client.metrics(events[0], {wrong: 1})
            for arms in (ARMS, np.array(ARMS, dtype=np.float32)):
                with pytest.raises(InvalidInput, match="unit must be Unicode text; got"):
                    client.decide(arms, unit=wrong)


def test_threads_may_share_a_client(server: Live) -> None:
    with server.client() as client, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda index: client.decide(ARMS, event_id=f"t{index}").event_id, range(80)))
    assert found == [f"t{index}" for index in range(80)]


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, inspect.Signature]:
        public = inspect.getmembers(kind, lambda member: inspect.isfunction(member) and member.__name__[0] != "_")
        return {"__init__": inspect.signature(kind)} | {name: inspect.signature(method) for name, method in public}

    assert methods(Client) == methods(AsyncClient)


ALONE = """
import sys
for name in ("numpy", "numba", "scipy", "starlette"):
    sys.modules[name] = None
from glbandits.service.client import Client, decide_request
with Client(*sys.argv[1:]) as client:
    decided = client.decide([[1, 0], [0, 1.5]], excluded=[0])
    client.reward(decided.event_id, 1)
    client.batch([decide_request([{"drink": "tea"}, {"drink": "cola"}], context={"hour": 8})])
    client.explanation(decided.event_id)
    client.status()
    print(decided.arm, [name for name in sys.modules if name.startswith(("glbandits.maths", "glbandits.bandit"))])
"""


@pytest.mark.system
def test_client_needs_neither_numpy_nor_numba(server: Live) -> None:
    command = [sys.executable, "-c", ALONE, server.address, server.key, "other"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (run.returncode, run.stdout) == (0, "1 []\n"), run.stderr


def test_error_responses_raise_with_status_and_code(live: Live) -> None:
    with live.client() as client:
        with pytest.raises(ServiceError, match="an action must have 2 features") as refused:
            client.decide([[1, 2, 3]])
        assert (refused.value.status, refused.value.code) == (400, "BadRequest")
        with pytest.raises(ServiceError, match="no decision of the event 'none'") as refused:
            client.reward("none", 1)
        assert refused.value.code == "UnknownEvent"
    with live.client("nowhere") as client, pytest.raises(ServiceError, match="there is no loop 'nowhere'"):
        client.decide(ARMS)
    with live._replace(key="wrong").client() as client, pytest.raises(ServiceError, match="key is unknown or revoked"):
        client.decide(ARMS)


def test_invalid_arguments_are_refused_by_the_client(live: Live) -> None:
    with live.client() as client:
        with pytest.raises(InvalidInput, match="finite"):
            client.decide([[1.0, np.nan]])
        with pytest.raises(InvalidInput, match=r"got \[1.0, 2.0\]"):
            client.decide([1.0, 2.0])
        with pytest.raises(InvalidInput, match="got nan"):
            client.reward("e", float("nan"))
        for value in ("yes", None, [1.0, 2.0], 10**400):
            with pytest.raises(InvalidInput, match="a reward must be a finite number; got"):
                client.reward("e", value)
    with pytest.raises(InvalidInput, match="like http://127.0.0.1:8711; got 'localhost:1'"):
        live.client_of("localhost:1", "key")
    with pytest.raises(InvalidInput, match="tries must be a whole number of at least 1"):
        live.client_of("http://localhost:1", "key", tries=0)


@pytest.mark.parametrize("key", ["secret\n", " secret", "se cret", "secret\x00", "sécret", "", None])
def test_an_unusable_key_is_refused_and_not_printed(key: Any) -> None:
    with pytest.raises(InvalidInput, match="key must be text of printable ASCII") as refused:
        Client("http://localhost:1", key)
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (httpx2.Response(503), Pause(1.0)),
        (httpx2.Response(503, headers={"retry-after": "3"}), Pause(3.0)),
        (httpx2.Response(429, headers={"retry-after": "9999"}), Pause(10.0)),
        (httpx2.ConnectTimeout("slow"), Pause(0.1)),
    ],
)
def test_pause_before_the_next_attempt(response: Any, expected: Pause) -> None:
    assert Destination("http://a", "key", "shop", 2).result(calls.status(), response, 1) == expected


@pytest.mark.parametrize("status", [200, 302, 502])
def test_page_of_a_proxy_is_an_error(status: int) -> None:
    destination = Destination("http://a", "key", "shop", 2)
    with pytest.raises(ServiceError, match=f"responded with {status}: <html>") as refused:
        destination.result(calls.status(), httpx2.Response(status, text="<html>" * 100), 1)
    assert (refused.value.status, refused.value.code, len(str(refused.value)) < 300) == (status, "Unknown", True)


class Scripted(ThreadingHTTPServer):
    """Answers with the given statuses, one after the other; 0 closes the connection without a response."""

    daemon_threads = True

    def __init__(self, statuses: list[int]) -> None:
        self.statuses, self.bodies = statuses, list[bytes]()
        super().__init__(("127.0.0.1", 0), _ScriptedHandler)

    def __enter__(self) -> "Scripted":
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _ScriptedHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        status = self.server.statuses.pop(0)
        if not status:
            self.close_connection = True
            return
        body = (
            b'{"eventId": "e", "status": "accepted"}' if status == 200 else b'{"code": "Busy", "detail": "come again"}'
        )
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Not on the screen."""


def test_client_retries_a_busy_or_lost_server(client_of: Any) -> None:
    with Scripted([503, 0, 429, 200]) as server, client_of(server.address, "key") as client:
        assert client.reward("e", 1.0).status is EventStatus.ACCEPTED
    assert len(server.bodies) == 4
    assert len(set(server.bodies)) == 1  # the same key: it counts once
    assert b'"key":"0' in server.bodies[0]


def test_client_gives_up_after_its_tries(client_of: Any) -> None:
    with Scripted([503, 503]) as server, client_of(server.address, "key", tries=2) as client:
        with pytest.raises(ServiceError, match="responded with 503: come again") as refused:
            client.reward("e", 1.0)
        assert (refused.value.status, refused.value.code, server.statuses) == (503, "Busy", [])
    with Scripted([0, 0]) as server, client_of(server.address, "key", tries=2) as client:
        with pytest.raises(ServiceError, match="did not respond") as refused:
            client.reward("e", 1.0)
        assert refused.value.status == 0
