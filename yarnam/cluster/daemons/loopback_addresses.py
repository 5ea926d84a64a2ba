"""Addresses and ports of a cluster, chosen so that clusters side by side never meet.

Each cluster takes a *slot*: the network 127.<slot>.0.0/16, which is loopback on Linux without any
set-up. Masters live on 127.<slot>.0.1, node n of rack r on 127.<slot>.<r>.<n>. Within its slot a
cluster can use Hadoop's well-known ports, which lie below the range that the kernel hands out to
outgoing connections; a port that somebody holds on all addresses is replaced by another.
"""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from yarnam.errors import Unavailable

# 127.0.x.y is left alone: resolvers and Debian's name for the machine itself live there.
FIRST_SLOT, LAST_SLOT = 1, 254

MASTER_PORTS = {
    "namenode_rpc": 8020,
    "namenode_web": 9870,
    "rm_client": 8032,
    "rm_scheduler": 8030,
    "rm_tracker": 8031,
    "rm_admin": 8033,
    "rm_web": 8088,
    "zookeeper": 2181,
    "zookeeper_tls": 2281,
    "kdc": 2088,
    "namenode_https": 9871,
}
NODE_PORTS = {
    "nm": 8041,
    "nm_localizer": 8040,
    "nm_web": 8042,
    "nm_collector": 8048,
    "relay": 8020,
    "datanode": 9866,
    "datanode_web": 9864,
    "datanode_ipc": 9867,
    "datanode_https": 9865,
}
# Where a taken port's replacement is looked for: below the kernel's usual ephemeral range
# (32768-60999), above the services people run.
SPARE_PORTS = range(21000, 30000)


def listening_slots(tables: Iterable[str]) -> set[int]:
    """Second octets of all 127.x addresses that somebody listens on (from /proc/net/tcp)."""
    slots = set()
    for table in tables:
        for line in table.splitlines()[1:]:
            fields = line.split()
            # State 0A is LISTEN; the address is the little-endian hex of its four octets.
            if len(fields) < 4 or fields[3] != "0A":
                continue
            packed = fields[1].partition(":")[0]
            if len(packed) == 8 and packed[6:] == "7F":
                slots.add(int(packed[4:6], 16))
    return slots


def _tables() -> list[str]:
    return [Path("/proc/net/tcp").read_text(encoding="ascii")]


@contextmanager
def claim_slot(
    taken: set[int], read_tables: Callable[[], Iterable[str]] = _tables
) -> Iterator[int]:
    """Hold a slot nobody uses until the cluster's daemons listen on it themselves. The claim is an
    abstract socket: it spans users (as loopback does) and dies with its process. ``taken`` are the
    slots of this user's other clusters, running or not."""
    busy = taken | listening_slots(read_tables())
    for slot in range(FIRST_SLOT, LAST_SLOT + 1):
        if slot in busy:
            continue
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0yarnam-cluster-slot-{slot}")
        except OSError as error:
            claim.close()
            if error.errno == errno.EADDRINUSE:
                continue
            raise
        # Looked at again: whoever held the claim a moment ago may be listening by now.
        if slot in listening_slots(read_tables()):
            claim.close()
            continue
        try:
            yield slot
        finally:
            claim.close()
        return
    raise Unavailable(
        f"all {LAST_SLOT} loopback networks for clusters are in use",
        hint="Take a cluster down: yarnam cluster down --name NAME.",
    )


def choose_ports(
    wanted: dict[str, int],
    addresses: Sequence[str],
    draw: Callable[[Sequence[int]], int] = random.choice,
) -> dict[str, int]:
    """A port per name, free on every one of ``addresses``; the well-known one where possible."""
    held: list[socket.socket] = []
    chosen: dict[str, int] = {}
    try:
        for name, preferred in wanted.items():
            port = preferred
            # Every port found stays bound until all are found, so no two names get the same one.
            while not _hold(addresses, port, held):
                port = draw(SPARE_PORTS)
            chosen[name] = port
    finally:
        for each in held:
            each.close()
    return chosen


def _hold(addresses: Sequence[str], port: int, held: list[socket.socket]) -> bool:
    mine: list[socket.socket] = []
    for address in addresses:
        probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        mine.append(probe)
        # As Java's server sockets do: connections of the last run in TIME_WAIT do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            # With SO_REUSEADDR only listening finds out that somebody else does.
            probe.listen(1)
        except OSError as error:
            for each in mine:
                each.close()
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    held.extend(mine)
    return True
