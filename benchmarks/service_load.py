"""A load generator in another process: wrk if it is installed, or else Python."""

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
from typing import NamedTuple

import numpy as np

UNIQUE = b"@" * 16
"""In a request, the generator replaces this by digits that no other request has."""
_runs = count(1)


class Result(NamedTuple):
    """The measurements of a load generator."""

    requests: int
    seconds: float
    errors: int
    p50: float
    """Seconds from a request to its response."""
    p99: float


def post(path: str, body: bytes, key: str = "") -> bytes:
    """Return the bytes of a POST request."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def send(addresses: Sequence[str], requests: Sequence[bytes], seconds: int, connections: int) -> list[Result]:
    """Send requests to all addresses (host:port) in parallel for some seconds.

    Each of the `connections` to an address sends its next request when it has the response to the last one.
    """
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(b"%d\n%s" % (len(request), request) for request in requests))
        file.flush()
        commands = [_command(address, file.name, seconds, connections) for address in addresses]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
        outputs = [process.communicate()[0] for process in processes]
    return [Result(**json.loads(output.splitlines()[-1])) for output in outputs]


def _command(address: str, file: str, seconds: int, connections: int) -> list[str]:
    run, wrk = f"{next(_runs):06d}", shutil.which("wrk")
    if wrk is None:
        return [sys.executable, "-m", __name__, address, file, str(seconds), str(connections), run]
    script = str(Path(__file__).with_suffix(".lua"))
    return [wrk, "-t1", f"-c{connections}", f"-d{seconds}", "-s", script, f"http://{address}", "--", file, run]


def _requests(file: str, run: str) -> Iterator[bytes]:
    with Path(file).open("rb") as content:
        requests = [content.read(int(size)) for size in iter(content.readline, b"")]
    for number in count(1):
        yield requests[number % len(requests)].replace(UNIQUE, f"{run}{number:010d}".encode())


async def _connection(address: str, requests: Iterator[bytes], until: float, took: list[float]) -> int:
    """Send requests over one connection; returns how many failed."""
    reader, writer = await asyncio.open_connection(*address.split(":"))
    errors = 0
    while (began := time.perf_counter()) < until:
        writer.write(next(requests))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0))
        took.append(time.perf_counter() - began)
        errors += not head.startswith(b"http/1.1 20")
    writer.close()
    return errors


async def _run(address: str, file: str, seconds: float, connections: int, run: str) -> Result:
    requests, took, until = _requests(file, run), list[float](), time.perf_counter() + seconds
    errors = await asyncio.gather(*(_connection(address, requests, until, took) for _ in range(connections)))
    p50, p99 = np.quantile(took, [0.5, 0.99]).tolist()
    return Result(len(took), seconds, sum(errors), p50, p99)


if __name__ == "__main__":
    import uvloop

    address, file, seconds, connections, run = sys.argv[1:]
    print(json.dumps(uvloop.run(_run(address, file, float(seconds), int(connections), run))._asdict()))
