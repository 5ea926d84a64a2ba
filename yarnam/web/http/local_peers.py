"""Who asks a server on loopback: this user's own programs, under a name of this machine."""

from __future__ import annotations

import ipaddress
import os
import sys
from pathlib import Path

from yarnam.web.http.http_messages import Address

_TABLE = Path("/proc/net/tcp")
_ESTABLISHED = "01"


def is_own_peer(peer: Address, own_end: Address, table: Path = _TABLE) -> bool:
    """Whether the other end of the IPv4 loopback connection ``peer`` -> ``own_end`` belongs to this
    user or to root. Any user of the machine can connect to loopback; the kernel's table of sockets
    has the user of each (Linux, Documentation/networking/proc_net_tcp).

    Half of a connection's name is not enough: the same address and port may be an old connection of
    another user. Nor is any state: a socket without an owner, as in TIME_WAIT, shows user 0.
    """
    try:
        wanted = [_ESTABLISHED, _in_table(peer), _in_table(own_end)]
        with table.open(encoding="ascii") as lines:
            next(lines, None)
            fields = (line.split() for line in lines)
            found = {(row[7], row[9]) for row in fields if [row[3], row[1], row[2]] == wanted}
        users = [int(user) for user, _ in found]
        return len(users) == 1 and users[0] in (0, os.getuid())
    except (OSError, ValueError, IndexError):
        return False


def _in_table(end: Address) -> str:
    number = int.from_bytes(ipaddress.IPv4Address(end[0]).packed, sys.byteorder)
    return f"{number:08X}:{end[1]:04X}"


def is_loopback_name(host: str) -> bool:
    """Whether a Host header names this machine's loopback. A page elsewhere whose name was made to
    lead to 127.0.0.1 sends its own name."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.IPv4Address(name).is_loopback
    except ValueError:
        return False
