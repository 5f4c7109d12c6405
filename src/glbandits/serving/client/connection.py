"""One connection to a service that is kept, and requests that are sent again when the server is busy."""

import http.client
import time
from threading import Lock
from typing import TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from glbandits.errors import GlbanditsError, InvalidInput

BUSY = (429, 503)
"""Statuses after which the same request may succeed."""
JSON, FLOATS = "application/json", "application/octet-stream"
LONGEST_PAUSE = 10.0
"""Seconds between two tries, whatever the server says."""

Reply = TypeVar("Reply")


class ServiceError(GlbanditsError):
    """The server refused, or could not be reached. `status` is 0 if there was no reply; `code` names what was wrong."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class _Problem(msgspec.Struct, frozen=True):
    code: str = "Unknown"
    detail: str = ""


class Connection:
    """A connection of `Client`. Its arguments are documented there."""

    def __init__(self, address: str, key: str, loop: str, *, timeout: float, tries: int) -> None:
        url = urlsplit(address)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise InvalidInput(f"address must be like http://127.0.0.1:8711; got {address!r}")
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(url.hostname, url.port, timeout=timeout)
        self._prefix = f"{url.path.rstrip('/')}/loops/{quote(loop, safe='')}/v1"
        self._headers = {"Authorization": f"Bearer {key}"}
        self._tries, self._lock = tries, Lock()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def ask(
        self, path: str, reply: type[Reply], sent: msgspec.Struct | bytes | None = None, method: str | None = None
    ) -> Reply:
        """Send a request, several times if the server is busy or gone, and return the reply of this type."""
        body = msgspec.json.encode(sent) if isinstance(sent, msgspec.Struct) else sent
        method = method or ("GET" if body is None else "POST")
        headers = self._headers | ({} if body is None else {"Content-Type": FLOATS if body is sent else JSON})
        for again in range(self._tries - 1, -1, -1):
            try:
                response, content = self._send(method, path, body, headers)
            except (http.client.HTTPException, OSError) as error:
                if not again:
                    raise ServiceError(0, "Unreachable", f"the service gave no reply: {error!r}") from error
                time.sleep(0.1)
                continue
            if response.status == 200:
                return msgspec.json.decode(content, type=reply)
            if response.status not in BUSY or not again:
                break
            pause = response.getheader("Retry-After", "")
            time.sleep(min(float(pause), LONGEST_PAUSE) if pause.isdigit() else 1.0)
        raise _error(response.status, content)

    def _send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        with self._lock:
            try:
                self._connection.request(method, self._prefix + path, body, headers)
                response = self._connection.getresponse()
                return response, response.read()
            except (http.client.HTTPException, OSError):
                self._connection.close()  # the next request opens another one
                raise


def _error(status: int, content: bytes) -> ServiceError:
    try:
        problem = msgspec.json.decode(content, type=_Problem)
    except msgspec.DecodeError:
        problem = _Problem(detail=content[:200].decode("utf-8", "replace"))
    return ServiceError(status, problem.code, f"the service refused with {status}: {problem.detail}")
