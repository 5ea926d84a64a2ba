"""A relay between clients and one server, which a test can cut, stall, slow and mend."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import count

UP, DOWN = "to the server", "from the server"


class TcpRelay:
    """Listens on ``host``, forwards to ``target`` (host:port) while it is not cut."""

    def __init__(self, target: str, port: int = 0, host: str = "127.0.0.1") -> None:
        target_host, _, number = target.rpartition(":")
        self._target = (target_host, int(number))
        self._listener = socket.create_server((host, port))
        self._lock = threading.Lock()
        self._open: dict[int, tuple[socket.socket, socket.socket]] = {}
        self._numbers = count()
        self.served = 0
        """Connections so far."""
        self._is_cut = False
        self._flows = {UP: threading.Event(), DOWN: threading.Event()}
        self._delay_s = {UP: 0.0, DOWN: 0.0}
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self.mend()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # Only so does a thread that waits in accept() wake up.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for flow in self._flows.values():
            flow.set()

    def cut(self) -> None:
        """Close every connection, and each new one at once."""
        with self._lock:
            self._is_cut = True
            pairs = list(self._open.values())
        for pair in pairs:
            _shut(pair)

    def stall(self, directions: Iterable[str] = (UP, DOWN)) -> None:
        """Nothing passes, and nobody is told: what a lost route looks like."""
        for direction in directions:
            self._flows[direction].clear()

    def slow(self, delay_s: float, directions: Iterable[str] = (UP, DOWN)) -> None:
        """Each piece of data waits so long."""
        for direction in directions:
            self._delay_s[direction] = delay_s

    def mend(self) -> None:
        with self._lock:
            self._is_cut = False
        for direction, flow in self._flows.items():
            self._delay_s[direction] = 0.0
            flow.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target, timeout=5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        number, pair = next(self._numbers), (client, server)
        with self._lock:
            self.served += 1
            self._open[number] = pair
            is_cut = self._is_cut
        if is_cut:
            _shut(pair)
        back = threading.Thread(target=self._pump, args=(server, client, DOWN), daemon=True)
        back.start()
        self._pump(client, server, UP)
        back.join()
        with self._lock:
            del self._open[number]
        for end in pair:
            end.close()

    def _pump(self, source: socket.socket, sink: socket.socket, direction: str) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if delay_s := self._delay_s[direction]:
                    time.sleep(delay_s)
                self._flows[direction].wait()
                sink.sendall(data)
        _shut((source, sink))


def _shut(pair: tuple[socket.socket, socket.socket]) -> None:
    for end in pair:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
