"""A relay between clients and one server, which a test can cut and mend."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class TcpRelay:
    """Listens on loopback, forwards to ``target`` (host:port) while it is not cut."""

    def __init__(self, target: str) -> None:
        host, _, port = target.partition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_cut = False
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Close every connection, and each new one at once."""
        with self._lock:
            self._is_cut = True
            ends, self._open = self._open, set()
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def mend(self) -> None:
        with self._lock:
            self._is_cut = False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._is_cut:
                    client.close()
                    continue
                try:
                    server = socket.create_connection(self._target, timeout=5)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                self._open |= {client, server}
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
