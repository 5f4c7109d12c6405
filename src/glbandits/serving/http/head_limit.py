"""HTTP as uvicorn reads it, with a limit on the head of a request: its first line and its headers.

The parser keeps a head until it is whole, however long it is. Without a limit anybody, with a key or not, could fill
the memory of the server.
"""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 64 * 1024
"""Bytes of a head that comes in parts. One that comes in a single read is bounded by the size of a read, 256 kB."""
TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n"
    b"x-content-type-options: nosniff\r\n\r\n"
)


class HeadLimited(HttpToolsProtocol):
    """Closes a connection that sends too much of what is no body: a head, or the lines between and after chunks."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._kept, self._went_on = 0, False

    def data_received(self, data: bytes) -> None:
        """Read on. What brings neither a whole head nor a part of a body is kept by the parser, and counts."""
        self._went_on = False
        super().data_received(data)
        self._kept = 0 if self._went_on else self._kept + len(data)
        if self._kept > LARGEST_HEAD and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:  # else this would stand within another response
                self.transport.write(TOO_LARGE)
            self.transport.close()

    def on_headers_complete(self) -> None:
        """A head is whole."""
        self._went_on = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body has come; how large that may be is for the application to say."""
        self._went_on = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._went_on = True
        super().on_message_complete()
