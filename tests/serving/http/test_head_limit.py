"""A real uvicorn in this process, and requests by hand: heads that are too large."""

import asyncio
from collections.abc import Awaitable, Callable

import uvicorn
from glbandits.serving.http.head_limit import LARGEST_HEAD, HeadLimited

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]
START = b"POST / HTTP/1.1\r\nhost: test\r\n"


async def size_of_body(scope: Message, receive: Receive, send: Send) -> None:
    """An application that reads a body, and says how long it was."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    body = f"got {size} and {len(scope['headers'])} headers;".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def talked(talk: Talk) -> bytes:
    """What comes back from a server with which one talks in this way."""

    async def run() -> bytes:
        config = uvicorn.Config(
            size_of_body, host="127.0.0.1", port=0, http=HeadLimited, ws="none", lifespan="off", log_config=None
        )
        server = uvicorn.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup()
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return await asyncio.wait_for(talk(reader, writer), 10)
        finally:
            writer.close()
            await server.shutdown()

    return asyncio.run(run())


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, part: bytes) -> bytes:
    """Send a part again and again, 100 times the limit in all, and say what came back until the end."""
    try:
        for _ in range(100 * LARGEST_HEAD // len(part)):
            writer.write(part)
            await writer.drain()
        return await reader.read()
    except ConnectionError:
        return b"closed"


def test_a_head_without_an_end_is_cut_off() -> None:
    for part in (b"a" * 4096, b"name: " + b"a" * 4088 + b"\r\n"):

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, part: bytes = part) -> bytes:
            writer.write(START + b"x: ")
            return await flood(reader, writer, part)

        told = talked(talk)
        assert told == b"closed" or told.startswith(b"HTTP/1.1 431 Request Header Fields Too Large")


def test_headers_after_a_body_in_chunks_are_cut_off_too() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(START + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n")
        return await flood(reader, writer, b"name: " + b"a" * 4088 + b"\r\n")

    assert talked(talk) in (b"", b"closed")


def test_what_is_smaller_is_answered_however_it_comes() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        told = b""
        for _ in range(3):  # on one connection: what was counted for one request does not count for the next
            writer.write(START + b"content-length: 1000000\r\n")
            for _ in range(10):
                writer.write(b"name: " + b"a" * 5000 + b"\r\n")
                await writer.drain()
                await asyncio.sleep(0.005)  # so that it comes in parts
            writer.write(b"\r\n" + b"b" * 1_000_000)
            told += await reader.readuntil(b";")
        return told

    assert talked(talk).count(b"got 1000000 and 12 headers;") == 3
