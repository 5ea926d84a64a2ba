"""A peer that never comes to an end."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Dripping:
    """A server that sends a byte every 50 ms, in its head or in its body, as long as it may."""

    def __init__(self, first: bytes) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self._first = first
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._drip, args=(connection,), daemon=True).start()

    def _drip(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.sendall(self._first)
            while not self._is_over.wait(0.05):
                connection.sendall(b"x")

    def close(self) -> None:
        self._is_over.set()
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self._thread.join(10)
