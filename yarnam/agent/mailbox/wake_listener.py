"""Hears the AM when it has news: in a large gang no call of the agent waits there for them."""

from __future__ import annotations

import asyncio
import logging
import os
import socket

from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.protocol import WAKE_BYTES, WAKE_KEY_BYTES, number_in_wake

_LOG = logging.getLogger("yarnam.agent")

MOST_AT_ONCE = 64
"""Datagrams read before other work has its turn: anybody in the network can send some."""


class WakeListener:
    """One UDP socket. Datagrams that the AM has not made are dropped, and those of directives that
    the agent has seen change nothing."""

    def __init__(self) -> None:
        self.is_heard = False
        """The AM's datagrams arrive here: not so where a firewall drops them."""
        self._key = os.urandom(WAKE_KEY_BYTES)
        self._newest = 0
        self._changed = asyncio.Event()
        self._socket: socket.socket | None = None

    def open(self, address: str) -> None:
        """Listen on this IP address of the node. Where that fails the agent does without."""
        try:
            self._socket = _bound(address)
        except OSError as error:
            _LOG.warning("cannot listen for the AM on %s (UDP): %s", address, error)
            return
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._receive)

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    @property
    def port(self) -> pb.WakePort | None:
        """For the agent's reports; ``None``: it does not listen."""
        if self._socket is None:
            return None
        address, port = self._socket.getsockname()[:2]
        return pb.WakePort(address=address, port=port, key=self._key)

    async def wait(self, seen: int, limit_s: float) -> None:
        """Until the AM has a newer directive than number ``seen``; at most ``limit_s``."""
        deadline = asyncio.get_running_loop().time() + limit_s
        while self._newest <= seen:
            left_s = deadline - asyncio.get_running_loop().time()
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), max(0.0, left_s))
            except asyncio.TimeoutError:
                return

    def has_come(self, number: int) -> None:
        """The agent has got this directive. If no datagram announced it, none seem to arrive."""
        self._receive()  # one may be here and not read yet
        if number > self._newest and self.is_heard:
            _LOG.info("a directive came without a datagram: polls wait at the AM again")
            self.is_heard = False

    def _receive(self) -> None:
        for _ in range(MOST_AT_ONCE):
            try:
                if self._socket is None:
                    return
                datagram = self._socket.recv(WAKE_BYTES + 1)
            except OSError:
                return
            number = number_in_wake(self._key, datagram)
            if number is not None:
                if not self.is_heard:
                    _LOG.info("the AM's datagrams arrive (UDP): no poll waits there")
                self.is_heard = True
                self._newest = max(self._newest, number)
                self._changed.set()


def _bound(address: str) -> socket.socket:
    """Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = socket.socket(family, socket.SOCK_DGRAM)
    try:
        found.setblocking(False)
        found.bind((address, 0))
    except OSError:
        found.close()
        raise
    return found
