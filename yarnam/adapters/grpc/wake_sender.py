"""Wakes the agents of a large gang: a datagram says that there is news, the agent's poll gets it.

A call that waits at the AM would bring the news itself, and take memory there for each agent."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.protocol import WAKE_KEY_BYTES, wake_datagram


@dataclass(frozen=True, slots=True)
class WakePoint:
    """Where an agent listens, and the key of what is sent there."""

    address: str
    port: int
    key: bytes


def wake_point(report: pb.WakePort) -> WakePoint | None:
    """``None`` if the agent's address is invalid, or names more than a single host."""
    try:
        address = ipaddress.ip_address(report.address)
    except ValueError:
        return None
    is_host = not (address.is_multicast or address.is_unspecified)
    if not is_host or not 0 < report.port < 1 << 16 or len(report.key) != WAKE_KEY_BYTES:
        return None
    return WakePoint(str(address), report.port, report.key)


class WakeSender:
    """One socket for each address family, made when it is needed first. Never blocks or raises: an
    agent that is not woken asks on its own."""

    def __init__(self) -> None:
        self._sockets: dict[socket.AddressFamily, socket.socket] = {}

    def send(self, point: WakePoint, number: int) -> None:
        """Say that the agent's directive has this number."""
        family = socket.AF_INET6 if ":" in point.address else socket.AF_INET
        try:
            if family not in self._sockets:
                made = socket.socket(family, socket.SOCK_DGRAM)
                made.setblocking(False)
                self._sockets[family] = made
            datagram = wake_datagram(point.key, number)
            self._sockets[family].sendto(datagram, (point.address, point.port))
        except OSError:
            return  # a full buffer, no route: it is sent again, and the agent's next poll comes

    def close(self) -> None:
        for made in self._sockets.values():
            made.close()
        self._sockets.clear()
