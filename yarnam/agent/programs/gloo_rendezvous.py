"""The store through which Horovod's processes find each other on gloo, in place of horovodrun's.

As ``horovod/runner/http/http_server.py`` has it: PUT and GET of ``/SCOPE/KEY``, 404 for a key that
is not there yet, DELETE of the own rank when a process has found all others. Each process puts one
key into a scope, and none leaves it before all have: when all keys have been deleted the scope is
over, and may be used again.

A program of its own, which imports nothing of yarnam or of Horovod.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

MAX_VALUE = 4 << 20
"""Bytes. A process puts one address of some 130 bytes for each other one: 30,000 of them."""
MAX_BYTES = 2 << 30
"""Of all values together: 4,000 processes."""
REQUEST_S = 20.0


class Scopes:
    """Values by scope and key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[str, bytes]] = {}
        self._left: dict[str, set[str]] = {}
        self._bytes = 0

    def get(self, scope: str, key: str) -> bytes | None:
        with self._lock:
            return self._values.get(scope, {}).get(key)

    def put(self, scope: str, key: str, value: bytes) -> bool:
        """False: there is no room."""
        with self._lock:
            values = self._values.setdefault(scope, {})
            size = self._bytes + len(value) - len(values.get(key, b""))
            if size > MAX_BYTES:
                return False
            self._bytes = size
            values[key] = value
            return True

    def leave(self, scope: str, key: str) -> None:
        with self._lock:
            left = self._left.setdefault(scope, set())
            left.add(key)
            values = self._values.get(scope, {})
            if left >= values.keys():
                self._bytes -= sum(map(len, values.values()))
                self._values.pop(scope, None)
                del self._left[scope]


class Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_S
    scopes = Scopes()

    def do_GET(self) -> None:
        found = self._scope_and_key()
        value = self.scopes.get(*found) if found else None
        if value is None:
            self._respond(404 if found else 400)
        else:
            self._respond(200, value)

    def do_PUT(self) -> None:
        found, size = self._scope_and_key(), self.headers.get("Content-Length", "")
        if not found or not size.isascii() or not size.isdigit() or int(size) > MAX_VALUE:
            self.close_connection = True
            self._respond(400)
            return
        value = self.rfile.read(int(size))
        if len(value) == int(size):
            self._respond(200 if self.scopes.put(*found, value) else 507)

    def do_DELETE(self) -> None:
        if found := self._scope_and_key():
            self.scopes.leave(*found)
        self._respond(200 if found else 400)

    def _scope_and_key(self) -> tuple[str, str] | None:
        first, *parts = self.path.split("/")
        return None if first or len(parts) != 2 else (parts[0], parts[1])

    def _respond(self, code: int, value: bytes = b"") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(value)))
        self.end_headers()
        self.wfile.write(value)

    def log_message(self, *_: object) -> None:
        """Hundreds a second while processes wait for each other."""


def server(host: str, port: int) -> ThreadingTCPServer:
    """One that has not begun to serve. Not an HTTPServer: that asks DNS for its own name."""

    class Server(ThreadingTCPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        request_queue_size = 1024
        allow_reuse_address = daemon_threads = True

    return Server((host, port), type("OwnHandler", (Handler,), {"scopes": Scopes()}))


def main(words: Sequence[str]) -> int:
    """``HOST PORT``; ends by a signal."""
    host, port = words
    server(host, int(port)).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
