"""Ports kept for the user's processes from the barrier until they bind them.

A port announced to the whole gang must still be free when, perhaps minutes later, the process
listens there. The holder is a socket that is bound but never listens. Until the launch it has no
flags, and the kernel keeps everybody out. At the launch it gets SO_REUSEPORT, which lets in a
server of the same user that sets it too, as gRPC's do. Most other servers set SO_REUSEADDR alone,
which has to be answered by the same: from then until such a server listens, a server of *any* user
can come first. The kernel names the user who listens, so that a stranger is at least noticed.
Ports are chosen outside the kernel's range for outgoing connections, so that no connection takes
one by chance.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from yarnam.agent.keeper import procfs
from yarnam.errors import Unavailable

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL_DEFAULT = (32768, 60999)

FIRST_PORT, LAST_PORT = 10240, 65535
"""Below lie the services that people run by their well-known numbers (Hadoop's up to 9870)."""


class HeldPorts:
    """The ports of one task, by name. ``address`` is where they are announced."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._sockets: dict[str, socket.socket] = {}
        self._numbers: dict[str, int] = {}

    @property
    def numbers(self) -> dict[str, int]:
        """All ports ever held, by name."""
        return dict(self._numbers)

    @property
    def held(self) -> tuple[str, ...]:
        """Names of those whose holder is still there."""
        return tuple(self._sockets)

    def hold(self, names: Sequence[str]) -> None:
        """Raises Unavailable when no free port is left."""
        candidates = candidate_ports()
        for name in names:
            holder = self._hold_one(candidates)
            self._sockets[name] = holder
            self._numbers[name] = holder.getsockname()[1]

    def hold_again(self) -> tuple[str, ...]:
        """Take back the same numbers, which the gang knows, before processes start again in this
        task. Returns the names of those that somebody else has by now."""
        taken = []
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        for name, port in self._numbers.items():
            if name in self._sockets:
                continue
            holder = socket.socket(family, socket.SOCK_STREAM)
            # Connections of the processes before linger on their ports for a minute (TIME_WAIT).
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                holder.bind((self.address, port))
            except OSError:
                holder.close()
                taken.append(name)
                continue
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
            self._sockets[name] = holder
        return tuple(taken)

    def is_free(self, name: str) -> bool:
        """Whether a server could bind the port that sets no flags: nobody has it, and nothing is
        left there of the connections before (TIME_WAIT). Of one that is not held."""
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((self.address, self._numbers[name]))
            except OSError:
                return False
        return True

    def let_servers_in(self, of_grpc: Collection[str]) -> None:
        """From now on the user's processes can listen. No other user of the node can on the ports
        ``of_grpc``, whose servers all set SO_REUSEPORT."""
        for name, holder in self._sockets.items():
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if name not in of_grpc:
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    def release(self, names: Iterable[str]) -> None:
        for name in names:
            holder = self._sockets.pop(name, None)
            if holder is not None:
                holder.close()

    def release_all(self) -> None:
        self.release(self.held)

    def release_listening(self) -> tuple[tuple[str, ...], dict[str, int]]:
        """Release each port on which a server of this user listens by now; returns their names, and
        of the others what ``taken_by_others`` does."""
        listeners = self._listeners()
        served = tuple(name for name, uid in listeners if uid == os.getuid())
        self.release(served)
        return served, {name: uid for name, uid in listeners if name in self._sockets}

    def taken_by_others(self) -> dict[str, int]:
        """Held ports on which another user's server listens, with that user's number."""
        return {name: uid for name, uid in self._listeners() if uid != os.getuid()}

    def _listeners(self) -> list[tuple[str, int]]:
        if not self._sockets:
            return []
        mine = {hex_address(self.address), *_ANY_ADDRESS}
        if ":" not in self.address:
            # The address under which a server on a dual-stack socket (gRPC's, say) is listed.
            mine.add(hex_address(f"::ffff:{self.address}"))
        users: dict[int, set[int]] = {}
        for address, port, uid in procfs.listening_ports():
            if address in mine:
                users.setdefault(port, set()).add(uid)
        return [(name, uid) for name in self._sockets for uid in users.get(self._numbers[name], ())]

    def _hold_one(self, candidates: Iterator[int]) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        for port in candidates:
            holder = socket.socket(family, socket.SOCK_STREAM)
            try:
                holder.bind((self.address, port))
            except OSError as error:
                holder.close()
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    continue
                raise Unavailable(
                    f"cannot bind {self.address}:{port}: {error}",
                    hint="The node's name must resolve to an address of the node itself.",
                ) from error
            return holder
        raise Unavailable(f"no free port left on {self.address}")


def candidate_ports() -> Iterator[int]:
    """Each port once, from a random start, those outside the kernel's range first."""
    try:
        low, high = (int(text) for text in _EPHEMERAL.read_text().split())
    except (OSError, ValueError):
        low, high = _EPHEMERAL_DEFAULT
    above = range(high + 1, LAST_PORT + 1)
    below = range(FIRST_PORT, min(low, LAST_PORT + 1))
    inside = range(max(low, FIRST_PORT), min(high, LAST_PORT) + 1)
    for ports in (above, below, inside):
        if ports:
            start = int.from_bytes(os.urandom(4), "big") % len(ports)
            yield from ports[start:]
            yield from ports[:start]


def hex_address(address: str) -> str:
    """As /proc/net/tcp and tcp6 write it: words of four octets in this machine's byte order."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    words = (packed[start : start + 4] for start in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


_ANY_ADDRESS = ("0" * 8, "0" * 32)
