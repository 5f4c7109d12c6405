"""A persistent connection to a service, which retries requests when the server is busy."""

import http.client
import re
import time
from threading import Lock
from typing import TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from glbandits.common.errors import GlbanditsError, InvalidInput, check_int

BUSY = (429, 503)
"""Statuses after which a retry of the request may succeed."""
JSON, FLOATS = "application/json", "application/octet-stream"
PRINTABLE = re.compile("[!-~]+")
"""What a key consists of: other characters cannot be sent in a header."""
LONGEST_PAUSE = 10.0
"""Seconds between two attempts, at most."""

Content = TypeVar("Content")


class ServiceError(GlbanditsError):
    """An error response, or no response.

    `status` is 0 without a response; `code` is the stable name of the error.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class _Problem(msgspec.Struct, frozen=True):
    code: str = "Unknown"
    detail: str = ""


class Connection:
    """The connection of a `Client`, which documents the arguments."""

    def __init__(self, address: str, key: str, loop: str, *, timeout: float, tries: int) -> None:
        url = urlsplit(address)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise InvalidInput(f"address must be like http://127.0.0.1:8711; got {address!r}")
        if not isinstance(key, str) or not PRINTABLE.fullmatch(key):  # the message must not contain the key
            raise InvalidInput(
                "key must be text of printable ASCII characters without spaces or line breaks, as `glb keys create` "
                "prints it. If it was read from a file, pass key.strip()"
            )
        self._address = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(url.hostname, url.port, timeout=timeout)
        self._prefix = f"{url.path.rstrip('/')}/loops/{quote(loop, safe='')}/v1"
        self._headers = {"Authorization": f"Bearer {key}"}
        self._tries, self._lock = check_int("tries", tries, at_least=1), Lock()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def send(
        self,
        path: str,
        response_type: type[Content],
        content: msgspec.Struct | bytes | None = None,
        method: str | None = None,
    ) -> Content:
        """Send a request and return the decoded response.

        Retries if the server is busy or does not respond.

        Args:
            path: the path below /v1 of the loop.
            response_type: the type of the response.
            content: sent as JSON, or as binary numbers if it is bytes.
            method: POST if there is content, else GET, unless it is given.

        Raises:
            ServiceError: for an error response, or without a response.
        """
        body = msgspec.json.encode(content) if isinstance(content, msgspec.Struct) else content
        method = method or ("GET" if body is None else "POST")
        headers = self._headers | ({} if body is None else {"Content-Type": FLOATS if body is content else JSON})
        for retries_left in range(self._tries - 1, -1, -1):
            try:
                response, received = self._send(method, path, body, headers)
            except (http.client.HTTPException, OSError) as error:
                if not retries_left:
                    raise ServiceError(
                        0, "Unreachable", f"the service at {self._address} did not respond: {error!r}"
                    ) from error
                time.sleep(0.1)
                continue
            if response.status == 200:
                return msgspec.json.decode(received, type=response_type)
            if response.status not in BUSY or not retries_left:
                break
            pause = response.getheader("Retry-After", "")
            time.sleep(min(float(pause), LONGEST_PAUSE) if pause.isdigit() else 1.0)
        raise _error(response.status, received)

    def _send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        with self._lock:
            try:
                self._connection.request(method, self._prefix + path, body, headers)
                response = self._connection.getresponse()
                return response, response.read()
            except (http.client.HTTPException, OSError):
                self._connection.close()  # the next request connects again
                raise


def _error(status: int, received: bytes) -> ServiceError:
    try:
        problem = msgspec.json.decode(received, type=_Problem)
    except msgspec.DecodeError:
        problem = _Problem(detail=received[:200].decode("utf-8", "replace"))
    return ServiceError(status, problem.code, f"the service responded with {status}: {problem.detail}")
