"""Requests that ask for another protocol are answered as if they had not, and are the last of their connection."""

import asyncio

import pytest

from tests.serving.http.talking import EVENT_LOOPS, Line, Reply, Site, asked, in_chunks, replies, run_in, settle, talked
from tests.serving.makers import run

H2C = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAEAAEAAAAIAAAAB")
WEBSOCKET = ("Upgrade: websocket", "Connection: keep-alive, Upgrade", "Sec-WebSocket-Key: x")
each_protocol = pytest.mark.parametrize("headers", [H2C, WEBSOCKET])
each_kind = pytest.mark.parametrize("prefix", ["", "/swift"])


@each_protocol
@each_kind
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_they_are_answered_with_their_bodies_however_they_come(
    prefix: str, headers: tuple[str, ...], size: int
) -> None:
    async def main() -> None:
        for sent, body in [
            (asked(f"{prefix}/echo", *headers), b""),
            (asked(f"{prefix}/echo", *headers, method="POST", body=b"abcdef"), b"abcdef"),
            (
                asked(f"{prefix}/echo", *headers, "transfer-encoding: chunked", method="POST") + in_chunks(b"a", b"b"),
                b"ab",
            ),
        ]:
            site = Site()
            line = Line(site)
            whole = asked("/swift/echo") + sent + asked("/echo?behind")
            for begin in range(0, len(whole), size):
                line.send(whole[begin : begin + size])
            _, reply = await line.replied(2)
            assert (reply.status, reply.headers[b"connection"]) == (200, b"close")
            assert reply.body.rpartition(b"|")[2] == body
            assert line.closed()
            await settle()
            assert len(site.asked) == len(line.replies) == 2

    run(main())


def test_their_other_headers_count() -> None:
    async def main() -> None:
        for more, status in [
            (["authorization: nobody"], 401),
            (["content-type: a", "content-type: a"], 400),
            (["content-length: 3000"], 413),
        ]:
            line = Line(Site())
            line.send(asked("/swift/echo", *H2C, *more, method="POST"))
            assert [reply.status for reply in line.replies] == [status]
            assert line.closed()

    run(main())


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_a_tunnel_is_refused(version: str) -> None:
    async def main() -> None:
        site = Site()
        for headers in ((), H2C):
            line = Line(site)
            line.send(asked("host:443", *headers, method="CONNECT", version=version) + b"\x16\x03\x01")
            assert [(reply.status, reply.headers[b"connection"]) for reply in line.replies] == [(404, b"close")]
            assert line.closed()

    run(main())


def test_a_header_alone_asks_for_nothing() -> None:
    async def main() -> None:
        line = Line(Site())
        line.send(asked("/swift/echo", "upgrade: h2c") + asked("/swift/echo"))
        assert [reply.status for reply in line.replies] == [200, 200]
        assert not line.closed()

    run(main())


@pytest.mark.parametrize("event_loop", EVENT_LOOPS)
def test_over_a_socket(event_loop: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[Reply]:
        writer.write(asked("/echo", *H2C, method="POST", body=b"abc"))
        return replies(await reader.read())

    async def main() -> list[Reply]:
        return await talked(Site(), talk)

    assert [reply.body[-4:] for reply in run_in(event_loop, main())] == [b"|abc"]
