"""A small HTTP server for pages that are only read: GET and HEAD, one request a connection.

It lives in the ApplicationMaster, which most people never look at: Python's own server and whatever
renders the pages are loaded at the first request.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from yarnam._light_imports import on_first_use
from yarnam.web.http.http_messages import Address, Respond

with on_first_use():
    from yarnam.web.http import http_requests

log = logging.getLogger("yarnam.web")

WORKERS = 4
"""Requests that are answered at a time."""
MAX_OPEN = 64
"""Connections that are answered or wait for it; further ones are closed immediately."""
BACKLOG = 64
_WORDS = (
    b"This page is not for you. A job's page is read at its tracking URL, through YARN's proxy.\n"
)
REFUSAL = (
    b"HTTP/1.0 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_WORDS), _WORDS)
)


class HttpServer:
    """Serves on ``listener``, which it owns. ``is_allowed(peer, own_end)`` judges a connection
    before anything is read of it, in the server's thread: it must not block. ``on_tick`` is called
    about every ``tick_s`` seconds in the same thread."""

    def __init__(
        self,
        listener: socket.socket,
        respond: Respond,
        is_allowed: Callable[[Address, Address], bool],
        on_tick: Callable[[], None] = lambda: None,
        tick_s: float = 2.0,
    ) -> None:
        self._listener = listener
        self._respond = respond
        self._is_allowed = is_allowed
        self._on_tick = on_tick
        self._tick_s = tick_s
        self._pool: ThreadPoolExecutor | None = None
        self._open = threading.BoundedSemaphore(MAX_OPEN)
        self._is_closed = False

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def start(self) -> None:
        """Serve in a thread of its own, which ends with the process."""
        threading.Thread(target=self.serve, name="web", daemon=True).start()

    def serve(self) -> None:
        """Until ``close``."""
        self._listener.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._is_closed:
                try:
                    if selector.select(self._tick_s):
                        self._accept()
                    self._on_tick()
                except Exception:  # Nothing depends on the pages.
                    if not self._is_closed:
                        log.exception("a request could not be taken")
                        threading.Event().wait(self._tick_s)

    def close(self) -> None:
        """Idempotent. Requests under way are answered."""
        self._is_closed = True
        self._listener.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False)

    def _accept(self) -> None:
        try:
            connection, peer = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        # Before a place is taken and a byte is read: strangers cost the others nothing.
        if not self._is_allowed(peer[:2], connection.getsockname()[:2]):
            _refuse(connection)
            return
        if not self._open.acquire(blocking=False):
            connection.close()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="web")
        self._pool.submit(self._handle, connection, peer[:2])

    def _handle(self, connection: socket.socket, peer: Address) -> None:
        try:
            http_requests.handle(connection, peer, self._respond)
        except OSError as error:
            log.debug("%s has gone: %s", peer[0], error)
        except Exception:
            log.exception("a request could not be answered")
        finally:
            connection.close()
            self._open.release()


def _refuse(connection: socket.socket) -> None:
    """Best effort: a peer that does not read its refusal does not get it."""
    with connection, suppress(OSError):
        connection.setblocking(False)
        connection.send(REFUSAL)


def listen(host: str, port: int = 0) -> socket.socket:
    """A listening socket. Raises OSError."""
    is_v6 = ":" in host
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    return socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
