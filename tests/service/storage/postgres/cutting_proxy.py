"""A TCP proxy before PostgreSQL that cuts connections at a COMMIT."""

import socket
import threading
import time
from contextlib import suppress
from enum import Enum, auto

MARK = b"\0COMMIT\0"
"""The COMMIT of a batch, which is sent in pipeline mode. That of a new connection's settings looks otherwise."""


class Cut(Enum):
    """When to cut connections."""

    NEVER = auto()
    BEFORE_COMMIT = auto()
    """The server does not get the COMMIT."""
    AFTER_COMMIT = auto()
    """The client does not get the response."""


class CuttingProxy:
    """Forwards connections to the socket of a server. `cut` applies to the next COMMIT, once."""

    def __init__(self, server_socket: str) -> None:
        self.cut = Cut.NEVER
        self._server_socket = server_socket
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server_socket)
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._return, args=(server, client), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 20):
                cut = self.cut if MARK in data else Cut.NEVER
                if cut is not Cut.NEVER:
                    self.cut = Cut.NEVER
                    client.shutdown(socket.SHUT_RDWR)
                if cut is Cut.BEFORE_COMMIT:
                    break
                server.sendall(data)
                if cut is Cut.AFTER_COMMIT:
                    time.sleep(0.2)
                    break
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()

    def _return(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 20):
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        client.close()

    def close(self) -> None:
        """Accept no more connections."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
