"""Raw sockets against a real server: slow, huge, malformed and too many requests."""

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import Response

from glbandits.service.http import connections
from glbandits.service.http.app import app_of
from glbandits.service.http.auth import OPEN
from glbandits.service.http.endpoint import Endpoint
from glbandits.service.http.endpoints import ENDPOINTS
from glbandits.service.http.site import Site
from glbandits.service.server_settings import Settings
from tests.service.http.servers.live_server import live_server
from tests.service.http.servers.server_process import Running, running

pytestmark = pytest.mark.system

GET = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST /echo HTTP/1.1\r\nhost: x\r\n"


async def echo(_: Site, request: Request, sent: bytes) -> Response:  # noqa: ARG001
    return Response(sent, media_type="application/octet-stream")


ECHO = Endpoint("POST", "/echo", OPEN, echo, bytes, bytes, parameters=None, per_loop=False)


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server without a store: only open endpoints work."""
    app = app_of(Site(Settings()), endpoints=(*ENDPOINTS, ECHO))
    with live_server(app, max_connections=50, lifespan="off", loop=request.param) as address:
        yield address


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines of a second."""
    for name in ("HEAD_SECONDS", "BODY_SECONDS", "WRITE_SECONDS"):
        monkeypatch.setattr(connections, name, 1)
    monkeypatch.setattr(connections, "TICK_SECONDS", 0.1)


def connect(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), timeout=120)


def read_all(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def exchange(address: str, sent: bytes) -> bytes:
    """What the server sends before it closes. The client sends no more after this."""
    with connect(address) as connection:
        connection.sendall(sent)
        return read_all(connection)


def status(reply: bytes) -> int:
    return int(reply.split()[1]) if reply else 0


CLOSE = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET /livez HTTP/9.9\r\nhost: x\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost : x\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: x\r\n folded: y\r\n\r\n",
        b"CONNECT other:443 HTTP/1.1\r\nhost: x\r\n\r\n",
        POST + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
        POST + b"transfer-encoding: gzip, chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
        POST + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        POST + b"content-length: +3\r\n\r\nabc",
        POST + b"content-length: -1\r\n\r\n",
        POST + b"transfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_malformed_request_is_refused(address: str, sent: bytes) -> None:
    reply = exchange(address, sent + CLOSE)
    assert status(reply) == 400, reply
    assert reply.count(b"HTTP/1.1") == 1  # nothing behind it is taken for a request


def test_chunked_body_is_read(address: str) -> None:
    body = b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\ntrailer: t\r\n\r\n"
    assert exchange(address, POST + body).endswith(b"\r\n\r\nabcde")


def test_request_to_upgrade_keeps_its_body(address: str) -> None:
    """Java's HTTP client asks to upgrade to HTTP/2 with its first request."""
    head = (
        POST
        + b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMA\r\ncontent-length: 3\r\n\r\n"
    )
    assert exchange(address, head + b"abc").endswith(b"\r\n\r\nabc")
    with connect(address) as connection:
        connection.sendall(head)
        time.sleep(0.1)
        connection.sendall(b"abc")
        assert read_all(connection).endswith(b"\r\n\r\nabc")


@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_pipelined_requests_are_answered_in_order(address: str, piece: int) -> None:
    count = 20 if piece < 100 else 3000
    bodies = [b"body %d" % number for number in range(count)]
    sent = b"".join(POST + b"content-length: %d\r\n\r\n%s" % (len(body), body) for body in bodies) + CLOSE
    with connect(address) as connection:

        def send() -> None:
            for start in range(0, len(sent), piece):
                connection.sendall(sent[start : start + piece])

        sender = threading.Thread(target=send)
        sender.start()
        reply = read_all(connection)
        sender.join()
    found = [part.partition(b"\r\n\r\n")[2] for part in reply.split(b"HTTP/1.1 ")[1:]]
    assert found == [*bodies, b'{"status":"alive"}']


def test_half_closed_connection_gets_all_responses(address: str) -> None:
    with connect(address) as connection:
        connection.sendall(POST + b"content-length: 3\r\n\r\nabc" + GET)
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection).count(b"HTTP/1.1 200 OK") == 2
    assert exchange_half_closed(address, POST + b"content-length: 3\r\n\r\na") == b""


def exchange_half_closed(address: str, sent: bytes) -> bytes:
    with connect(address) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return read_all(connection)


def test_client_that_closes_with_requests_under_way_causes_no_errors(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        with connect(address) as connection:
            connection.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n" * 400)
            time.sleep(0.2)  # until the server waits for the client to read
    assert status(exchange(address, CLOSE)) == 200
    time.sleep(0.2)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("head", [b"x: " + b"y" * 100_000, b"".join(b"h%d: v\r\n" % n for n in range(20_000))])
def test_huge_head_is_refused(address: str, head: bytes) -> None:
    assert status(exchange(address, b"GET /livez HTTP/1.1\r\nhost: x\r\n" + head)) == 431


def test_endless_trailer_is_refused(address: str) -> None:
    trailers = b"".join(b"t%d: v\r\n" % n for n in range(20_000))
    reply = exchange(address, POST + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n" + trailers)
    assert status(reply) == 431


def test_connection_is_usable_after_a_refused_body(address: str) -> None:
    reply = exchange(address, POST + b"content-length: 400000\r\n\r\n" + bytes(400_000) + CLOSE)
    assert status(reply) == 413
    assert reply.count(b"HTTP/1.1 200 OK") == 1


def test_refused_expectation_closes_the_connection(address: str) -> None:
    """A client that waits for 100 Continue may leave out the body: what follows is ambiguous."""
    reply = exchange(address, POST + b"expect: 100-continue\r\ncontent-length: 1000000\r\n\r\n" + GET)
    assert (status(reply), reply.count(b"HTTP/1.1")) == (413, 1)
    assert b"connection: close" in reply


def drip(address: str, start: bytes, drop: bytes) -> tuple[bytes, float]:
    """Send a start, then a few bytes ten times a second. The reply, and the seconds until the server closed."""
    began = time.monotonic()
    with connect(address) as connection:
        connection.sendall(start)
        connection.settimeout(0.1)
        reply = b""
        while time.monotonic() - began < 15:
            try:
                part = connection.recv(1000)
                if not part:
                    break
                reply += part
            except TimeoutError:
                pass
            except OSError:
                break
            try:
                connection.sendall(drop)
            except OSError:
                break
        return reply, time.monotonic() - began


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (b"", b""),
        (b"", b"\r\n"),
        (b"GET / HTTP/1.1\r\nx: ", b"y"),
        (POST + b"content-length: 1000\r\n\r\n", b"a"),
        (POST + b"transfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (POST + b"transfer-encoding: chunked\r\n\r\n1;", b"x"),
        (POST + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n"),
    ],
    ids=["silence", "line ends", "head", "body", "chunks", "chunk extension", "trailer"],
)
@pytest.mark.usefixtures("quick")
def test_slow_request_gets_408(address: str, start: bytes, drop: bytes) -> None:
    reply, seconds = drip(address, start, drop)
    assert status(reply) in (0, 408)
    assert 0.5 < seconds < 14  # the client gives up after 15 s


@pytest.mark.usefixtures("quick")
def test_client_that_does_not_read_is_disconnected(address: str) -> None:
    request = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n"
    with connect(address) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(5)
        ended = False
        for _ in range(100):
            try:
                connection.sendall(request * 100)
                time.sleep(0.1)
            except OSError:
                ended = True
                break
        assert ended


def test_connections_above_the_limit_get_503(address: str) -> None:
    held = [connect(address) for _ in range(50)]
    try:
        for connection in held:
            connection.sendall(GET)
            assert status(connection.recv(1000)) == 200
        assert status(exchange(address, b"")) == 503
    finally:
        for connection in held:
            connection.close()
    end = time.monotonic() + 60
    while status(exchange(address, CLOSE)) != 200:
        assert time.monotonic() < end
        time.sleep(0.05)


def memory(pid: int) -> float:
    """Resident MB of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


HOSTILE: dict[str, bytes] = {
    "documents": b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n" * 136,
    "many small": b"GET /livez HTTP/1.1\r\nhost:a\r\n\r\n" * 9000,
    "smallest": b"GET / HTTP/1.1\r\n\r\n" * 14_000,
    "heads": b"GET / HTTP/1.1\r\nx: " + b"y" * 60_000,
    "bodies": b"POST /v1/decide HTTP/1.1\r\nhost: x\r\ncontent-length: 250000\r\n\r\n" + bytes(249_000),
    "unsized bodies": b"POST /v1/decide HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    + b"2000\r\n"
    + bytes(8191),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_500_hostile_connections_do_not_fill_memory(tmp_path: Path, kind: str) -> None:
    with running(tmp_path) as server:
        held = [connect(server.address) for _ in range(500)]
        try:
            for connection in held:
                connection.setblocking(False)
            assert server.ask("GET", "/livez").status == 200  # now all are accepted
            most = flood(server, held, HOSTILE[kind])
            began = time.monotonic()
            assert server.ask("GET", "/livez").status == 200
            assert time.monotonic() - began < 10
        finally:
            for connection in held:
                connection.close()
    assert most < 400, f"{most:.0f} MB"


def flood(server: Running, connections: list[socket.socket], content: bytes) -> float:
    """Send the content over all connections, never reading, for some seconds. The most MB that the server had."""
    rest, most, end = dict.fromkeys(connections, content), 0.0, time.monotonic() + 8
    while time.monotonic() < end:
        for connection, unsent in rest.items():
            try:
                rest[connection] = unsent[connection.send(unsent) :] or content
            except BlockingIOError:
                continue
            except OSError:
                rest[connection] = b""
        most = max(most, memory(server.process.pid))
    return most


LOW_LIMIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
from glbandits.cli.main import main
main()
"""


def test_soft_limit_of_files_is_raised(tmp_path: Path) -> None:
    command = (sys.executable, "-c", LOW_LIMIT.format(soft=64, hard=2048))
    with running(tmp_path, command=command) as server:
        held = [connect(server.address) for _ in range(200)]
        assert server.ask("GET", "/livez").status == 200
        for connection in held:
            connection.close()


def test_too_few_files_limit_the_connections(tmp_path: Path) -> None:
    command = (sys.executable, "-c", LOW_LIMIT.format(soft=64, hard=164))
    with running(tmp_path, command=command) as server:
        held = [connect(server.address) for _ in range(120)]
        try:
            assert status(held[-1].recv(1000)) == 503
        finally:
            for connection in held:
                connection.close()
        text = server.errors.read_text()
        assert "max_connections is 100 instead of 1000, because the limit of open files is 164." in text
        assert text.count("Connections are refused: 100 are open. Raise max_connections.") == 1
