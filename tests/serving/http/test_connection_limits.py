"""What a connection does not put up with: heads without an end, silence, garbage, and clients that take nothing."""

import asyncio
from typing import cast

import pytest

from glbandits.serving.http.connection import BIT, KEEP_ALIVE, LARGEST_HEAD, MOST_AHEAD, SLOWEST
from tests.serving.http.talking import EVENT_LOOPS, Line, Site, asked, replies, run_in, settle, talked
from tests.serving.makers import run

START = b"POST /echo HTTP/1.1\r\nhost: test\r\n"
both_event_loops = pytest.mark.parametrize("event_loop", EVENT_LOOPS)


def statuses(line: Line) -> list[int]:
    return [reply.status for reply in line.replies]


class TestHeads:
    PARTS = (b"a" * 4096, b"name: " + b"a" * 4088 + b"\r\n")

    @pytest.mark.parametrize("part", PARTS)
    def test_without_an_end_are_cut_off(self, part: bytes) -> None:
        async def main() -> None:
            line = Line(Site())
            line.send(START + b"x: ")
            for _ in range(LARGEST_HEAD // len(part) - 1):
                line.send(part)
            assert line.wire.writes == []
            for _ in range(100):
                line.send(part)
            assert statuses(line) == [431]
            assert line.replies[0].headers[b"connection"] == b"close"
            assert line.replies[0].body == b"431 Request Header Fields Too Large\n"
            assert line.closed()

        run(main())

    def test_after_a_body_in_chunks_are_cut_off_too(self) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            line.send(START + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n")
            for _ in range(LARGEST_HEAD // 4096 + 2):
                line.send(self.PARTS[1])
            assert statuses(line) == [431]
            assert line.closed()
            await settle()
            assert site.asked == []

        run(main())

    def test_that_are_smaller_are_answered_however_they_come(self) -> None:
        async def main() -> None:
            line = Line(Site())
            for _ in range(3):  # on one connection: what was counted for one request does not count for the next
                for byte in asked("/swift/echo", "name: " + "a" * 20_000):
                    line.send(bytes([byte]))
                head = (START + b"content-length: 1000000\r\n", *self.PARTS[1:] * 10, b"\r\n")
                for part in (*head, *[bytes(1000)] * 1000):
                    line.send(part)
            assert statuses(line) == [200, 413] * 3
            assert not line.closed()

        run(main())

    @both_event_loops
    def test_are_cut_off_over_a_socket(self, event_loop: str) -> None:
        async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
            writer.write(START + b"x: ")
            try:
                for _ in range(100 * LARGEST_HEAD // 4096):
                    writer.write(self.PARTS[0])
                    await writer.drain()
                return await reader.read()
            except ConnectionError:
                return b"closed"

        async def main() -> bytes:
            return await talked(Site(), flood)

        told = run_in(event_loop, main())
        assert told == b"closed" or [reply.status for reply in replies(told)] == [431]


class TestSilence:
    def test_in_a_head_is_told_after_a_while_however_often_a_byte_comes(self) -> None:
        async def main() -> None:
            line = Line(Site())
            line.send(START)
            for _ in range(SLOWEST - 1):
                line.tick(1)
                line.send(b"x")
            assert line.wire.writes == []
            line.tick(1)
            assert statuses(line) == [408]
            assert line.closed()

        run(main())

    def test_in_a_body_is_told_after_a_while(self) -> None:
        async def main() -> None:
            line = Line(Site())
            line.send(START + b"content-length: 100\r\n\r\n")
            for _ in range(3):  # it may take long, if it goes on
                line.tick(SLOWEST)
                line.send(b"x")
            line.tick(SLOWEST)
            assert line.wire.writes == []
            line.tick(1)
            assert statuses(line) == [408]
            assert line.closed()

        run(main())

    def test_between_requests_ends_a_connection_after_a_while(self) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            for _ in range(2):
                line.tick(KEEP_ALIVE)
                line.send(asked("/swift/echo"))
            for _ in range(KEEP_ALIVE):
                site.shared.tick()
            assert statuses(line) == [200, 200]
            assert not line.closed()
            site.shared.tick()
            assert line.closed()
            assert statuses(line) == [200, 200]

        run(main())

    def test_while_we_work_is_allowed(self) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            line.send(asked("/wait/a"))
            line.tick(10 * KEEP_ALIVE)
            site.gates["a"].set()
            assert (await line.replied(1))[0].body == b"a"
            assert not line.closed()

        run(main())


class TestGarbage:
    @pytest.mark.parametrize(
        "garbage",
        [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET x HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nno header\r\n\r\n",
            b"GET / HTTP/1.1\r\nname : a\r\n\r\n",
            b"GET / HTTP/1.1\r\nname: a\r\n folded\r\n\r\n",
            b"GET /\xc3\xbc HTTP/1.1\r\n\r\n",
            START + b"content-length: +3\r\n\r\nabc",
            START + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabc",
            START + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            START + b"transfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n\r\n0\r\n\r\n",
            START + b"transfer-encoding: chunked\r\n\r\nx\r\n",
        ],
    )
    def test_is_told_after_what_was_begun_was_answered(self, garbage: bytes) -> None:
        async def main() -> None:
            site = Site()
            line, other = Line(site), Line(site)
            line.send(asked("/wait/a") + garbage + asked())
            assert line.wire.writes == []
            line.send(asked())  # nobody reads it
            site.gates["a"].set()
            found = await line.replied(2)
            assert [reply.status for reply in found] == [200, 400]
            assert (found[0].body, found[1].body) == (b"a", b"400 Bad Request\n")
            assert b"connection" not in found[0].headers
            assert found[1].headers[b"connection"] == b"close"
            assert line.closed()
            other.send(garbage)
            assert statuses(other) == [400]
            assert other.closed()
            await settle()
            assert site.asked == ["/wait/a"]

        run(main())


class TestAhead:
    def test_so_many_are_read_and_more_when_the_first_is_answered(self) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            for i in range(MOST_AHEAD):
                line.send(asked(f"/wait/{i}"))
            assert not line.paused()
            line.send(asked("/wait/last"))
            assert line.paused()
            site.gates["1"].set()
            await settle()
            assert line.paused()
            site.gates["0"].set()
            await line.replied(2)
            assert not line.paused()
            for gate in (*map(str, range(MOST_AHEAD)), "last"):
                site.gates[gate].set()
            assert (await line.replied(MOST_AHEAD + 1))[-1].body == b"last"

        run(main())

    def test_one_read_with_a_great_many_is_read_bit_by_bit(self) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            one = asked("/wait/a")
            line.send(one * 10_000)
            assert line.paused()
            begun = len(line.connection._exchanges)
            assert MOST_AHEAD < begun <= MOST_AHEAD + BIT // len(one) + 1
            line.send(one)  # which an event loop may bring though it was told to pause
            assert len(line.connection._exchanges) == begun
            site.gates["a"].set()
            await line.replied(10_001)
            assert not line.paused()

        run(main())

    def test_those_that_are_refused_count_too(self) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            line.send(asked("/wait/a"))
            for _ in range(MOST_AHEAD):
                assert not line.paused()
                line.send(asked("/unknown"))
            assert line.paused()
            site.gates["a"].set()
            await line.replied(MOST_AHEAD + 1)
            assert not line.paused()

        run(main())

    @both_event_loops
    def test_all_are_answered_over_a_socket(self, event_loop: str) -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
            writer.write(b"".join(asked(f"/echo?{i}", "a: " + "a" * 500) for i in range(5_000)))
            writer.write(asked("/echo", "connection: close"))
            return await reader.read()

        async def main() -> bytes:
            return await talked(Site(), talk)

        bodies = [reply.body for reply in replies(run_in(event_loop, main()))]
        assert [int(body.split(b"|")[2] or b"5000") for body in bodies] == list(range(5_001))


async def clogged(site: Site) -> None:
    """Wait until the one connection does not take its responses."""
    while not any(connection._clogged for connection in site.shared.open):
        await asyncio.sleep(0.001)


class TestClogged:
    def test_who_does_not_take_responses_is_not_read_on(self) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            line.send(asked("/wait/a"))
            line.connection.pause_writing()
            assert line.paused()
            site.gates["a"].set()
            await line.replied(1)
            assert line.paused()
            line.connection.resume_writing()
            assert not line.paused()

        run(main())

    def test_who_takes_them_again_is_not_read_on_while_too_much_waits(self) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            line.send(b"".join(asked(f"/wait/{i}") for i in range(MOST_AHEAD + 1)))
            line.connection.pause_writing()
            line.connection.resume_writing()
            assert line.paused()
            site.gates["0"].set()
            await line.replied(1)
            assert not line.paused()

        run(main())

    @both_event_loops
    def test_over_a_socket_the_server_does_not_pile_up_responses(self, event_loop: str) -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            transport = cast(asyncio.Transport, writer.transport)
            transport.pause_reading()
            for _ in range(20):
                writer.write(asked("/large"))
                await asyncio.sleep(0.001)
            await clogged(site)
            (connection,) = site.shared.open
            piled_up = connection._transport.get_write_buffer_size()
            assert 0 < piled_up < 3 * 8_000_000
            transport.resume_reading()
            writer.write(asked("/echo?end", "connection: close"))
            total = 0
            while part := await reader.read(2**20):
                total, last = total + len(part), part
            assert last.endswith(b"GET|/echo|end|connection=close;|")
            assert total > 20 * 8_000_000

        site = Site()

        async def main() -> None:
            await talked(site, talk)

        run_in(event_loop, main())

    def test_who_takes_a_response_slowly_has_time_and_who_takes_nothing_is_cut_off(self) -> None:
        async def main() -> None:
            line = Line(Site())
            line.send(asked("/swift/large"))
            line.connection.pause_writing()
            for unsent in range(8_000_000, 0, -100_000):
                line.wire.unsent = unsent
                line.tick(10)
            line.tick(KEEP_ALIVE - 9)
            assert not line.closed()
            line.tick(1)
            assert line.closed()

        run(main())

    @both_event_loops
    def test_over_a_socket_who_takes_nothing_is_cut_off(self, event_loop: str) -> None:
        async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            cast(asyncio.Transport, writer.transport).pause_reading()
            writer.write(asked("/large", "connection: close"))
            await clogged(site)
            await asyncio.sleep(0.02)
            for seconds in range(KEEP_ALIVE + 2):
                assert site.shared.open, f"it was cut off after {seconds} s"
                site.shared.tick()
            await settle()
            assert not site.shared.open

        async def main() -> None:
            await talked(site, talk)

        site = Site()
        run_in(event_loop, main())

    @pytest.mark.parametrize("begun", [START, START + b"content-length: 3\r\n\r\n"])
    def test_who_waits_for_us_is_not_too_slow(self, begun: bytes) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            line.send(b"".join(asked(f"/wait/{i}") for i in range(MOST_AHEAD + 1)) + begun)
            assert line.paused()
            line.tick(10 * SLOWEST)
            for i in range(MOST_AHEAD + 1):
                site.gates[str(i)].set()
            await line.replied(MOST_AHEAD + 1)
            assert not line.paused()
            assert not line.closed()
            line.tick(SLOWEST + 1)
            assert statuses(line)[-1] == 408

        run(main())
