"""A load generator in another process: wrk if it is installed, or else Python, which uses more of the machine's CPU."""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

HOST_HEADER = "bench"
UNIQUE = b"@" * 16
"""In a request, this is replaced by digits that no other request has."""
_runs = count(1)


class Result(NamedTuple):
    """What a load generator has measured."""

    requests: int
    seconds: float
    errors: int
    p50: float
    """Seconds."""
    p99: float


def post(path: str, body: bytes, key: str = "", content_type: str = "application/json") -> bytes:
    """A POST request as it goes over the wire."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {HOST_HEADER}\r\nauthorization: Bearer {key}\r\n"
        f"content-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def send(targets: dict[str, Sequence[bytes]], seconds: int, connections: int) -> list[Result]:
    """Send requests to each address (host:port) at the same time, over and over, for some seconds.

    Each of the `connections` to an address sends its next request when it has the response to the last one.
    """
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for number, (address, requests) in enumerate(targets.items()):
            file = Path(folder) / f"requests-{number}"
            file.write_bytes(b"".join(b"%d\n%s" % (len(request), request) for request in requests))
            command = _command(address, str(file), seconds, connections)
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        outputs = [process.communicate()[0] for process in processes]
    return [Result(**json.loads(output.splitlines()[-1])) for output in outputs]


def _command(address: str, file: str, seconds: int, connections: int) -> list[str]:
    unique = f"{next(_runs):06d}"
    if (wrk := shutil.which("wrk")) is None:
        return [sys.executable, "-m", __name__, address, file, str(seconds), str(connections), unique]
    script = str(Path(__file__).with_suffix(".lua"))
    options = ["-t1", f"-c{connections}", f"-d{seconds}", "-s", script]
    return [wrk, *options, f"http://{address}", "--", file, unique]


class _Sender(asyncio.Protocol):
    """A connection that sends a request, reads the whole response, and sends the next request."""

    def __init__(self, requests: Iterator[bytes], took: list[float], until: float) -> None:
        self._requests, self._took, self._until = requests, took, until
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        self._reply, self._sent = b"", time.perf_counter()
        if self._sent < self._until:
            self._transport.write(next(self._requests))
        else:
            self.done.set_result(None)
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._reply += data
        head, found, body = self._reply.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if not found or len(body) < int(length or 0):
            return
        if head.startswith(b"HTTP/1.1 20"):
            self._took.append(time.perf_counter() - self._sent)
            self._send()
        else:
            self.done.set_exception(RuntimeError(f"error response: {head!r} {body!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed the connection"))


def _numbered(file: str, unique: str) -> Iterator[bytes]:
    content, requests = Path(file).read_bytes(), []
    while content:
        size, _, content = content.partition(b"\n")
        requests.append(content[: int(size)])
        content = content[int(size) :]
    for number in count(1):
        yield requests[number % len(requests)].replace(UNIQUE, f"{unique}{number:010d}".encode())


async def _run(address: str, file: str, seconds: float, connections: int, unique: str) -> dict[str, Any]:
    host, port = address.split(":")
    event_loop, requests, took = asyncio.get_running_loop(), _numbered(file, unique), list[float]()
    until = time.perf_counter() + seconds
    made = [
        await event_loop.create_connection(lambda: _Sender(requests, took, until), host, int(port))
        for _ in range(connections)
    ]
    await asyncio.gather(*(sender.done for _, sender in made))
    p50, p99 = np.quantile(took, [0.5, 0.99]).tolist()
    return Result(len(took), seconds, 0, p50, p99)._asdict()


if __name__ == "__main__":
    import uvloop

    address, file, seconds, connections, unique = sys.argv[1:]
    print(json.dumps(uvloop.run(_run(address, file, float(seconds), int(connections), unique))))
