"""Ticket caches as MIT's library writes them (cc_file.c, format 0x0504): tickets of no KDC."""

from __future__ import annotations

import struct
import time
from pathlib import Path


def write_ticket(path: Path, name: str, realm: str, *, left_s: float) -> None:
    """A cache with a ticket-granting ticket that ends in so many seconds."""
    client, service = _principal(realm, name), _principal(realm, "krbtgt", realm)
    now = int(time.time())
    times = struct.pack(">4I", now - 3600, now - 3600, now + int(left_s), 0)
    key = struct.pack(">HI", 18, 32) + bytes(32)
    rest = struct.pack(">BIII", 0, 0, 0, 0) + struct.pack(">I", 4) + b"none" + struct.pack(">I", 0)
    path.write_bytes(b"\x05\x04\0\0" + client + client + service + key + times + rest)


def _principal(realm: str, *parts: str) -> bytes:
    texts = b"".join(struct.pack(">I", len(one)) + one.encode() for one in (realm, *parts))
    return struct.pack(">II", 1, len(parts)) + texts
