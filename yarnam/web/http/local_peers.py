"""Who asks a server on loopback: this user's own programs, under a name of this machine."""

from __future__ import annotations

import ipaddress
import os
import sys
from pathlib import Path

_TABLE = Path("/proc/net/tcp")


def is_own_peer(address: str, port: int, table: Path = _TABLE) -> bool:
    """Whether the other end of a connection over IPv4 loopback belongs to this user or to root.
    Anybody on the machine can connect to loopback; the kernel's table of sockets has each one's
    user (Linux, Documentation/networking/proc_net_tcp)."""
    try:
        number = int.from_bytes(ipaddress.IPv4Address(address).packed, sys.byteorder)
        wanted = f"{number:08X}:{port:04X}"
        with table.open(encoding="ascii") as lines:
            next(lines, None)
            fields = (line.split() for line in lines)
            return any(row[1] == wanted and int(row[7]) in (0, os.getuid()) for row in fields)
    except (OSError, ValueError, IndexError):
        return False


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
