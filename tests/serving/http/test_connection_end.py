"""How connections end: by what was asked, by the other side, and by the server."""

import asyncio
import logging
import socket
import struct

import pytest

from tests.serving.http.talking import EVENT_LOOPS, Line, Reply, Site, asked, replies, run_in, serving, settle, talked
from tests.serving.makers import run

both_event_loops = pytest.mark.parametrize("event_loop", EVENT_LOOPS)
each_kind = pytest.mark.parametrize("prefix", ["", "/swift"])


class TestByWhatWasAsked:
    @each_kind
    @pytest.mark.parametrize(
        ("version", "headers"), [("1.1", ["connection: close"]), ("1.0", []), ("1.0", ["connection: keep-alive"])]
    )
    def test_after_the_response(self, prefix: str, version: str, headers: list[str]) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            line.send(
                asked("/swift/echo") + asked(f"{prefix}/echo", *headers, version=version, method="POST", body=b"a")
            )
            found = await line.replied(2)
            assert [reply.headers.get(b"connection") for reply in found] == [None, b"close"]
            assert found[1].body.endswith(b"|a")
            assert line.closed()
            line.send(asked())
            await settle()
            assert len(site.asked) == 2

        run(main())

    @pytest.mark.parametrize("path", ["/wait/a", "/unknown"])
    def test_what_comes_behind_the_last_request_is_not_begun(self, path: str) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            line.send(asked("/wait/b") + asked(path, "connection: keep-alive", version="1.0"))
            line.send(asked("/echo?behind", method="POST", body=b"a"))
            for gate in "ab":
                site.gates[gate].set()
            assert [reply.headers.get(b"connection") for reply in await line.replied(2)] == [None, b"close"]
            await settle()
            assert "/echo" not in site.asked
            assert line.closed()

        run(main())

    @both_event_loops
    @pytest.mark.parametrize("headers", [["connection: close"], ["authorization: nobody", "connection: close"]])
    def test_over_a_socket(self, event_loop: str, headers: list[str]) -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
            writer.write(asked() + asked("/echo", *headers))
            return await reader.read()

        found = replies(run_in(event_loop, talked(Site(), talk)))
        assert [reply.status for reply in found] == [200, 401 if len(headers) == 2 else 200]


class TestByTheOtherSide:
    @both_event_loops
    @each_kind
    def test_half_closed_it_gets_its_responses(self, event_loop: str, prefix: str) -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[Reply]:
            writer.write(asked(f"{prefix}/wait/a") + asked("/echo?b") + b"GET /half")
            writer.write_eof()
            while len(site.asked) < 2:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            site.gates["a"].set()
            return replies(await reader.read())

        async def main() -> list[Reply]:
            return await talked(site, talk)

        site = Site()
        found = run_in(event_loop, main())
        assert [reply.body for reply in found] == [b"a", b"GET|/echo|b||"]
        assert [reply.headers.get(b"connection") for reply in found] == [None, b"close"]

    def test_half_closed_with_nothing_to_answer_it_is_closed(self) -> None:
        async def main() -> None:
            site = Site()
            for sent in (b"", b"GET /half", asked("/swift/echo"), asked("/echo", "content-length: 3")):
                line = Line(site)
                line.send(sent)
                assert not line.connection.eof_received()
            assert site.asked == ["/swift/echo"]

        run(main())

    @both_event_loops
    @each_kind
    @pytest.mark.parametrize("abruptly", [False, True])
    def test_the_response_of_one_that_went_away_is_dropped(
        self, event_loop: str, prefix: str, abruptly: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def gone() -> None:
            while site.shared.open:
                await asyncio.sleep(0.001)

        async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(asked(f"{prefix}/wait/a") + asked(f"{prefix}/wait/a"))
            while len(site.asked) < 2:
                await asyncio.sleep(0.001)
            if abruptly:
                no_goodbye = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_goodbye)
            writer.transport.abort()
            if abruptly:
                await gone()
            site.gates["a"].set()
            await gone()
            await settle()
            assert not site.shared.tasks

        async def main() -> None:
            await talked(site, talk)

        site = Site()
        with caplog.at_level(logging.INFO):
            run_in(event_loop, main())
        assert caplog.records == []


class TestByTheServer:
    def test_what_was_begun_is_answered_and_idle_ones_are_closed(self) -> None:
        async def main() -> None:
            site = Site()
            idle, busy, reading = Line(site), Line(site), Line(site)
            idle.send(asked("/swift/echo"))
            busy.send(asked("/wait/a") + asked("/wait/b"))
            whole = asked("/swift/echo", method="POST", body=b"abc")
            reading.send(whole[:-1])
            site.shared.end()
            assert (idle.closed(), busy.closed(), reading.closed()) == (True, False, False)
            reading.send(whole[-1:])
            assert reading.replies[0].headers[b"connection"] == b"close"
            assert reading.closed()
            site.gates["a"].set()
            assert b"connection" not in (await busy.replied(1))[0].headers
            assert not busy.closed()
            site.gates["b"].set()
            assert (await busy.replied(2))[1].headers[b"connection"] == b"close"
            assert busy.closed()

        run(main())

    @both_event_loops
    def test_over_a_socket_all_are_gone_soon(self, event_loop: str) -> None:
        async def main() -> None:
            site = Site()
            async with serving(site) as port:
                idle, busy = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
                busy[1].write(asked("/wait/a"))
                while not site.asked:
                    await asyncio.sleep(0.001)
                site.shared.end()
                assert await idle[0].read() == b""
                site.gates["a"].set()
                assert [reply.body for reply in replies(await busy[0].read())] == [b"a"]
                while site.shared.open:
                    await asyncio.sleep(0.001)
                for _, writer in (idle, busy):
                    writer.close()

        run_in(event_loop, main())

    @pytest.mark.parametrize("turns", [0, 1])
    def test_the_task_of_a_request_may_be_cancelled(self, turns: int, caplog: pytest.LogCaptureFixture) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            line.send(asked("/wait/a"))
            for _ in range(turns):
                await asyncio.sleep(0)
            assert len(site.asked) == turns
            site.shared.abort()
            line.connection.connection_lost(None)
            await settle()
            assert not site.shared.tasks
            assert line.wire.writes == []

        run(main())
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]

    @both_event_loops
    @each_kind
    def test_aborted_all_are_gone_at_once(self, event_loop: str, prefix: str, caplog: pytest.LogCaptureFixture) -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
            writer.write(asked(f"{prefix}/wait/a"))
            while not site.asked:
                await asyncio.sleep(0.001)
            site.shared.abort()
            try:
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                await settle()
                assert not site.shared.open
                assert not site.shared.tasks

        async def main() -> bytes:
            return await talked(site, talk)

        site = Site()
        with caplog.at_level(logging.ERROR):
            assert run_in(event_loop, main()) == b""
        assert caplog.records == []


def test_who_comes_after_the_end_has_begun_is_sent_away() -> None:
    async def main() -> None:
        site = Site()
        site.shared.end()
        assert Line(site).closed()

    run(main())
