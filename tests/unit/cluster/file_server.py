"""A loopback HTTP server that can misbehave in the ways that repositories do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FileServer:
    """``files`` by path; ``faults`` are used up one per request, then requests succeed."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[Callable[[BaseHTTPRequestHandler, bytes], None]]] = field(
        default_factory=dict
    )
    # (path, Range header) of every request, in order of arrival
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    honours_ranges: bool = True


def make_server(state: FileServer) -> ThreadingHTTPServer:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            with lock:
                state.requests.append((self.path, wanted))
                faults = state.faults.get(self.path, [])
                fault = faults.pop(0) if faults else None
            content = state.files.get(self.path)
            if content is None:
                self.send_error(404)
            elif fault is not None:
                fault(self, content)
            elif wanted is not None and state.honours_ranges:
                self._send_range(content, int(wanted.removeprefix("bytes=").removesuffix("-")))
            else:
                send(self, 200, content)

        def _send_range(self, content: bytes, start: int) -> None:
            if start >= len(content):
                self.send_error(416)
            else:
                send(self, 206, content[start:])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def send(handler: BaseHTTPRequestHandler, code: int, content: bytes) -> None:
    handler.send_response(code)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def truncate(after: int) -> Callable[[BaseHTTPRequestHandler, bytes], None]:
    """Promise everything, send ``after`` bytes, hang up."""

    def fault(handler: BaseHTTPRequestHandler, content: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[:after])
        handler.close_connection = True

    return fault


def corrupt(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    send(handler, 200, bytes(len(content)))


def status(code: int) -> Callable[[BaseHTTPRequestHandler, bytes], None]:
    return lambda handler, _: handler.send_error(code)
