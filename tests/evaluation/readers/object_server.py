"""A server with the part of the API of S3 that reads objects: the files of a folder, under /bucket/key."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class ObjectHandler(BaseHTTPRequestHandler):
    """Answers HEAD and GET, also of a range of bytes, and ListObjectsV2."""

    protocol_version = "HTTP/1.1"

    def __init__(self, folder: Path, *arguments: Any) -> None:
        self._folder = folder
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Send an object, a part of it, or the list of objects."""
        address = urlsplit(self.path)
        path, query = self._folder / unquote(address.path).strip("/"), parse_qs(address.query)
        if "list-type" in query:
            self._send(200, _listed(path, query.get("prefix", [""])[0]))
        elif not path.is_file():
            self._send(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            content, wanted = path.read_bytes(), self.headers.get("Range")
            if wanted is None:
                self._send(200, content)
                return
            first, last = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted).groups()  # type: ignore[union-attr]
            start = int(first) if first else max(len(content) - int(last), 0)
            stop = min(int(last) + 1, len(content)) if first and last else len(content)
            self._send(206, content[start:stop], f"bytes {start}-{stop - 1}/{len(content)}")

    do_HEAD = do_GET

    def _send(self, status: int, body: bytes, content_range: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Wed, 19 Nov 2025 00:00:00 GMT")
        self.send_header("ETag", '"1"')
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing to the terminal."""


def _listed(bucket: Path, prefix: str) -> bytes:
    files = sorted(file for file in bucket.rglob("*") if file.is_file())
    keys = [(file.relative_to(bucket).as_posix(), file.stat().st_size) for file in files]
    found = [
        f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size><LastModified>2025-11-19T00:00:00.000Z</LastModified>"
        "<ETag>1</ETag></Contents>"
        for key, size in keys
        if key.startswith(prefix)
    ]
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(found)}</ListBucketResult>".encode()


@contextmanager
def object_server(folder: Path) -> Iterator[str]:
    """Serve a folder with a folder for each bucket. Yields the address of the server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(ObjectHandler, folder))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
