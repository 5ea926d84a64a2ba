"""A connection to a server in the container, for a client that forwards a port."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from contextlib import suppress

from yarnam.agent.sessions.descriptors import Descriptor

CONNECT_LIMIT_S = 5.0
"""A server on the same node accepts immediately, or its backlog is full."""

LOOPBACK = (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6))


class Connection:
    """Open once ``connect`` has returned."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self.stream: Descriptor | None = None

    async def connect(self, port: int) -> None:
        """To the container's loopback alone. Raises OSError."""
        failures: list[str] = []
        for address, family in LOOPBACK:
            try:
                made = await _connected(address, family, port)
            except asyncio.TimeoutError:
                failures.append("no reply")
            except OSError as error:
                failures.append(os.strerror(error.errno or errno.EIO))
            else:
                self._socket = made
                self.stream = Descriptor(os.dup(made.fileno()))
                return
        raise OSError(f"port {port} of the task: {failures[0]}")

    def end_input(self) -> None:
        """The server reads to its end; it may still write."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
        if self._socket is not None:
            self._socket.close()


async def _connected(address: str, family: socket.AddressFamily, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop = asyncio.get_running_loop()
        await asyncio.wait_for(loop.sock_connect(made, (address, port)), CONNECT_LIMIT_S)
    except BaseException:
        made.close()
        raise
    return made
