"""A deadline for a whole exchange with another server.

A socket's timeout limits the time between two bytes, so a peer that sends a byte now and then holds
its caller for as long as it likes. Whoever reads through a library cannot count the bytes either.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import final


@final
class ExchangeDeadline:
    """Ends the connections that were opened through it when its time is over. A context manager.

    >>> with ExchangeDeadline(60.0) as deadline:
    ...     deadline.seconds
    60.0
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.is_over = False
        self._lock = threading.Lock()
        self._handles: list[socket.socket] | None = []
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def connect(
        self,
        address: tuple[str, int],
        timeout: float | None = None,
        source_address: tuple[str, int] | None = None,
    ) -> socket.socket:
        """The arguments of ``socket.create_connection``. Raises OSError."""
        limit_s = self.seconds if timeout is None else min(timeout, self.seconds)
        found = socket.create_connection(address, limit_s, source_address)
        # TLS takes the descriptor over; a second one of the same connection can still end it.
        handle = found.dup()
        with self._lock:
            if self._handles is None:
                found.close()
                handle.close()
                raise TimeoutError(f"no end within {self.seconds:g} s")
            self._handles.append(handle)
        return found

    def _end(self) -> None:
        self.is_over = True
        self._close(is_late=True)

    def _close(self, *, is_late: bool) -> None:
        with self._lock:
            handles, self._handles = self._handles or [], None
        for handle in handles:
            if is_late:
                with suppress(OSError):
                    handle.shutdown(socket.SHUT_RDWR)
            handle.close()

    def __enter__(self) -> ExchangeDeadline:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        self._close(is_late=False)
